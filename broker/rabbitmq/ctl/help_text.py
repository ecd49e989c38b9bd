"""Help texts of the command lines: of all verbs, or of one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from broker.rabbitmq.ctl.verb_catalogue import VERBS, VerbLine

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


def _bold(text: str) -> str:
    return f"\x1b[1m{text}\x1b[0m"


def usage(tool: str, verb: VerbLine) -> list[str]:
    """Return the usage line of a verb, below a heading."""
    words = [f"{tool} [--node <node>] [--longnames] [--quiet] {verb.name}", *([verb.usage] if verb.usage else [])]
    return ["", _bold("Usage"), "", " ".join(words)]


def help_of(tool: str, verb: VerbLine) -> list[str]:
    """All that is said of one verb."""
    return [*usage(tool, verb), "", f"{verb.about}.", "", "", _bold("General Options"), "", *GENERAL.splitlines(), ""]


def overview(tool: str) -> list[str]:
    """Return the usage of the program, and its verbs."""
    words = f"{tool} [--node <node>] [--timeout <timeout>] [--longnames] [--quiet] <command> [<command options>]"
    more = f"Use '{tool} help <command>' to learn more about a specific command"
    return ["", _bold("Usage"), "", words, "", "Available commands:", "", *commands(tool), more]


def commands(tool: str) -> list[str]:
    """The verbs of a program by their groups."""
    return list(_commands([verb for verb in VERBS.values() if tool in verb.tools]))


def _commands(verbs: list[VerbLine]) -> Iterator[str]:
    width = max(len(verb.name) for verb in verbs)
    for group, members in groupby(verbs, lambda verb: verb.group):
        yield f"{_bold(group)}:"
        yield ""
        for verb in members:
            yield f"   {verb.name.ljust(width)}  {verb.about}"
        yield ""
