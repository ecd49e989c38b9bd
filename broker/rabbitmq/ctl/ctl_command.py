"""`leveret rabbitmqctl`, `rabbitmq-diagnostics` and the others: a command line read, carried out and shown."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from broker.admin.protocol import AdministrationError, NotRunning, TimedOut
from broker.cli.named_directory import ROOT, Named, named, target_settings
from broker.cli.table_output import echo
from broker.rabbitmq.ctl.dialect import DIALECTS
from broker.rabbitmq.ctl.formatters import FORMATTERS, Manner, json_text
from broker.rabbitmq.ctl.help_text import HelpText
from broker.rabbitmq.ctl.line_options import GENERAL, Option, ParsedLine, read_line
from broker.rabbitmq.ctl.outcomes import TIMED_OUT, UNAVAILABLE, USAGE, Misuse, Outcome, ShownText, VerbRefusal
from broker.rabbitmq.ctl.similar_names import most_like
from broker.rabbitmq.ctl.verb_call import NodePlace, VerbAction, VerbCall
from broker.rabbitmq.ctl.verb_catalogue import ACTIONS, verbs_of
from broker.rabbitmq.ctl.verb_lines import VerbLine
from broker.rabbitmq.ctl.verbs.refused_verbs import REFUSED, is_refused
from broker.rabbitmq.program import program_command
from broker.rabbitmq.spoken_identity import spoken_identity

STOPPED = (
    "this command requires the 'rabbit' app to be running on the target node. Start it with 'rabbitmqctl start_app'."
)


class CommandLine:
    """One command line of one of RabbitMQ's programs."""

    def __init__(self, tool: str, words: Sequence[str]) -> None:
        self.tool = tool
        self.words = list(words)
        self.line = read_line(self.words, _all_options())
        self.place = _place(self.line)
        self.verbs = verbs_of(self.place.series)
        self.help = help_of(self.line.options.get("script-name", tool), tool, self.place)

    def run(self) -> int:
        """Carry it out; the exit code."""
        name = self.line.arguments[0] if self.line.arguments else ""
        if not name:
            return self._without_verb()
        known = self.verbs.find(self.tool, name)
        if known is None:
            return self._unknown(name)
        if self.line.options.get("help"):
            return _print(self.help.help_of(known), 0)
        return self._carry_out(known, _VERBS[name])

    def _without_verb(self) -> int:
        if self.line.options.get("version"):
            return _print([self.place.version], 0)
        return _print(self.help.overview(), 0) if self.line.options.get("help") else _complain(self.help.overview())

    def _unknown(self, name: str) -> int:
        if is_refused(name, self.place.series):
            return _fail(VerbRefusal(UNAVAILABLE, f"{name} is not supported: {REFUSED[name]}"), "table", silent=False)
        close = most_like(name, [verb.name for verb in self.verbs.of(self.tool)])
        if close:
            return _complain(["", f"Command '{name}' not found. ", f"Did you mean '{close}'? ", ""])
        return _complain(["", f"Command '{name}' not found. ", *self.help.overview()])

    def _carry_out(self, known: VerbLine, verb: VerbAction) -> int:
        line = read_line(self.words, (*verb.options, *GENERAL))
        form, silent = str(line.options.get("formatter", verb.form)).lower(), bool(line.options.get("silent"))
        call = VerbCall(self.tool, known.name, line.arguments[1:], line.options, self.place)
        try:
            _check(line, known, form, call.arguments)
            if verb.check is not None:
                verb.check(call)
            if self.place.stopped and not (verb.alone or verb.while_stopped):
                raise Misuse(STOPPED, of_arguments=False)
            return _show(call, known, verb, form)
        except Misuse as error:
            given = ["Arguments given:", f"\t{' '.join(self.words)}"]
            text = call.dialect.quoted.format(error) if error.characters else str(error)
            heading = f"Error (argument validation): {text}" if error.of_arguments else f"Error: {text}"
            return _complain([heading, *given, *self.help.usage(known)], error.code)
        except VerbRefusal as refusal:
            return _fail(refusal, form, silent=silent)
        except NotRunning:
            return _complain(_unreachable(call), UNAVAILABLE)
        except TimedOut:
            milliseconds = "infinity" if call.timeout is None else int(call.timeout * 1000)
            text = f"Error: operation {call.name} on node {call.node} timed out. Timeout value used: {milliseconds}"
            return _complain([text], TIMED_OUT)
        except AdministrationError as error:
            return _fail(verb.refused(call, error), form, silent=silent)
        finally:
            call.close()


def help_of(shown: str, tool: str, place: NodePlace) -> HelpText:
    """Return the help of a program, under the name that is shown."""
    return HelpText(shown, verbs_of(place.series).of(tool), bold=DIALECTS[place.series].bold_headings)


def _all_options() -> list[Option]:
    """The options of all verbs: which word is the verb is not known before they are told apart from it."""
    found = {option.name: option for verb in _VERBS.values() for option in verb.options}
    return [*found.values(), *GENERAL]


def _check(line: ParsedLine, known: VerbLine, form: str, arguments: Sequence[str]) -> None:
    if line.wrong:
        wrong = "\n".join(f"{name} : {value}" for name, value in line.wrong)
        raise Misuse(f"Invalid options for this command:\n{wrong}")
    if form not in FORMATTERS:
        raise Misuse(f"formatter {form} is not known; known: {', '.join(FORMATTERS)}")
    if len(arguments) < known.least:
        raise Misuse("not enough arguments.")
    if known.most is not None and len(arguments) > known.most:
        raise Misuse("too many arguments.")


def _place(line: ParsedLine) -> NodePlace:
    file, directory = line.options.get("config"), line.options.get("data-dir")
    before = named()
    config = target_settings(Named(Path(file) if file else before.config, directory or before.data_dir))
    root = Path(os.environ.get(ROOT) or "/")
    plugins = os.environ.get("RABBITMQ_ENABLED_PLUGINS_FILE") or "/etc/rabbitmq/enabled_plugins"
    plugins_file = Path(line.options.get("enabled-plugins-file") or root / plugins.lstrip("/"))
    return NodePlace(config.server.directory, *spoken_identity(config, line.options.get("timeout")), plugins_file)


def _show(call: VerbCall, known: VerbLine, verb: VerbAction, form: str) -> int:
    if not verb.alone:
        call.connect()
    formatter = FORMATTERS[form]
    banner = verb.banner(call) if verb.banner else _filled(known.banner, call)
    if banner and formatter.banners and not call.quiet:
        echo(banner, color=True)
    if call.options.get("dry-run"):
        return 0
    headers = call.options.get("table-headers", True) and not call.options.get("silent")
    manner = Manner(bool(headers), bool(call.options.get("silent")), sys.stdout.isatty())
    for text in formatter.write(verb.run(call), manner):
        echo(text, color=True)
    return 0


def _filled(banner: str, call: VerbCall) -> str:
    return banner.format(*call.arguments, vhost=call.vhost, node=call.node)


def _print(lines: Sequence[str], code: int) -> int:
    for line in lines:
        echo(line, color=True)
    return code


def _complain(lines: Sequence[str], code: int = USAGE) -> int:
    for line in lines:
        echo(line, err=True, color=True)
    return code


def _fail(refusal: VerbRefusal, form: str, *, silent: bool) -> int:
    if refusal.json is not None and form == "json":
        return _complain([json_text(refusal.json)], refusal.json_code)
    if refusal.hushed and silent:
        return refusal.code
    return _complain([*(["Error:"] if refusal.headed else []), refusal.text], refusal.code)


def _unreachable(call: VerbCall) -> list[str]:
    words = "Please see diagnostics information and suggestions below."
    return [
        f"Error: unable to perform an operation on node '{call.node}'. {words}",
        "",
        f" * no broker answers on the data directory {call.place.directory.absolute()}",
        " * the broker may be stopped, or in its start: 'rabbitmqctl await_startup' waits for that",
        " * its data directory may be another one: --data-dir or LEVERET_DATA_DIR names it, or --config",
        "",
    ]


# Help


def _help(call: VerbCall) -> Outcome:
    text = help_of(call.tool, call.tool, call.place)
    if call.options.get("list-commands"):
        return ShownText(["", *text.commands()], None)
    if not call.arguments:
        return ShownText(text.overview(), None)
    known = verbs_of(call.place.series).find(call.tool, call.arguments[0])
    if known is None:
        raise VerbRefusal(USAGE, f"\nCommand '{call.arguments[0]}' not found.")
    return ShownText(text.help_of(known), None)


def _autocomplete(call: VerbCall) -> Outcome:
    found = sorted(verb.name for verb in verbs_of(call.place.series).of(call.tool))
    return ShownText([name for name in found if name.startswith(call.arguments[0])], None)


_VERBS: dict[str, VerbAction] = {
    "help": VerbAction(_help, options=(Option("list-commands", bool),), alone=True),
    "autocomplete": VerbAction(_autocomplete, alone=True),
    **ACTIONS,
}


def _command(tool: str, about: str) -> click.Command:
    return program_command(tool, about, lambda words: CommandLine(tool, words).run())


rabbitmqctl = _command("rabbitmqctl", "RabbitMQ's command line, for scripts.")
rabbitmq_diagnostics = _command("rabbitmq-diagnostics", "RabbitMQ's health checks, for probes.")
rabbitmq_plugins = _command("rabbitmq-plugins", "RabbitMQ's list of plugins; what they do is built in.")
rabbitmq_queues = _command("rabbitmq-queues", "RabbitMQ's checks of queues on many nodes.")
rabbitmq_streams = _command("rabbitmq-streams", "RabbitMQ's commands for streams.")
rabbitmq_upgrade = _command("rabbitmq-upgrade", "RabbitMQ's checks before an upgrade.")
