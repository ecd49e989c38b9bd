"""Help texts of the command lines: of all verbs, or of one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from broker.rabbitmq.ctl.verb_lines import VerbLine

GENERAL = """\
short | long           | meaning
------|----------------|--------------------------------
-?    | --help         | explains the verb
-n    | --node NODE    | the node's name; taken, and not needed: there is one
-l    | --longnames    | taken, and not needed
-t    | --timeout N    | how many seconds an answer may take
-q    | --quiet        | says nothing but what is asked for
-s    | --silent       | nor the headings of tables
-p    | --vhost VHOST  | the virtual host
      | --formatter F  | table, json, csv, pretty_table or erlang
      | --data-dir DIR | the broker's data directory; LEVERET_DATA_DIR, or ./leveret-data
"""


class HelpText:
    """The help of a program, with its verbs."""

    def __init__(self, tool: str, verbs: Sequence[VerbLine], *, bold: bool) -> None:
        self._tool = tool
        self._verbs = verbs
        self._bold = bold

    def usage(self, verb: VerbLine) -> list[str]:
        """Return the usage line of a verb, below a heading."""
        called = f"{self._tool} [--node <node>] [--longnames] [--quiet] {verb.name}"
        return ["", self._heading("Usage"), "", " ".join([called, *([verb.usage] if verb.usage else [])])]

    def help_of(self, verb: VerbLine) -> list[str]:
        """Return all that is said of one verb."""
        options = ["", "", self._heading("General Options"), "", *GENERAL.splitlines(), ""]
        return [*self.usage(verb), "", f"{verb.about}.", *options]

    def overview(self) -> list[str]:
        """Return the usage of the program, and its verbs."""
        words = (
            f"{self._tool} [--node <node>] [--timeout <timeout>] [--longnames] [--quiet] <command> [<command options>]"
        )
        more = f"Use '{self._tool} help <command>' to learn more about a specific command"
        return ["", self._heading("Usage"), "", words, "", "Available commands:", "", *self.commands(), more]

    def commands(self) -> list[str]:
        """Return the verbs of the program by their groups."""
        return list(self._commands())

    def _commands(self) -> Iterator[str]:
        width = max(len(verb.name) for verb in self._verbs)
        for group, members in groupby(self._verbs, lambda verb: verb.group):
            yield f"{self._heading(group)}:"
            yield ""
            for verb in members:
                yield f"   {verb.name.ljust(width)}  {verb.about}"
            yield ""

    def _heading(self, text: str) -> str:
        return f"\x1b[1m{text}\x1b[0m" if self._bold else text
