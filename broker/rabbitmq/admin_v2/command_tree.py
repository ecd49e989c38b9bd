"""Command lines of `rabbitmqadmin` version 2 read: options, group, command, arguments."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, NoReturn

import click
from click.core import ParameterSource

from broker.rabbitmq.admin_v2.command_lines import ABOUT, COMMANDS, Argument, CommandSyntax
from broker.rabbitmq.admin_v2.program_options import EVERYWHERE, OPTIONS
from broker.rabbitmq.admin_v2.usage_errors import (
    CONFLICTS,
    EXCLUSIVE,
    WRONG_LINE,
    check_conflicts,
    check_repeated,
    refuse,
    shown_argument,
)
from broker.rabbitmq.admin_v2.value_types import TYPES

PROGRAM = "rabbitmqadmin"
HELP = "help"
INSTEAD = {"file": "stdin"}
"""Flags that stand for an argument."""


class Parsed(NamedTuple):
    """A command line: its command, the values of its arguments, and the program's options that are given."""

    command: CommandSyntax
    values: dict[str, Any]
    given: frozenset[str]
    """Keys of the arguments that are given."""
    options: dict[str, Any]


class Help(Exception):
    """Help is asked for, or stands for a command that is not there: the text, and the exit code."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.code = code


def parse(words: Sequence[str]) -> Parsed:
    """Read a command line. Raises click.UsageError, Help."""
    root = _context(_root(), PROGRAM, words)
    group_name, *rest = _next_word(root, ABOUT)
    if group_name == HELP:
        _show_help(root, rest)
    group = _context(_group(group_name), group_name, rest, root)
    known = {name: line for (group, name), line in COMMANDS.items() if group == group_name}
    name, *rest = _next_word(group, known)
    if name == HELP:
        _show_help(root, [group_name, *rest])
    leaf = _context(_leaf(known[name]), name, rest, group)
    given = _check_leaf(leaf, known[name])
    shared = [key for key in EVERYWHERE if key not in {each.key for each in known[name].arguments}]
    options = {**_given(root, OPTIONS), **_given(group, EVERYWHERE), **_given(leaf, shared)}
    check_conflicts(options, CONFLICTS, root)
    if "password" in options and "username" not in options:
        refuse("the following required arguments were not provided:\n  --username <username>", root)
    return Parsed(known[name], {each.key: _value(leaf, each) for each in known[name].arguments}, given, options)


def _value(context: click.Context, argument: Argument) -> Any:
    """The value of an argument; a list that is given in parts is put together."""
    value = context.params[argument.key]
    return [each for part in value for each in part] if argument.kind == "list" else value


def options_of(words: Sequence[str]) -> dict[str, Any]:
    """The program's options alone, whatever the command. Raises click.UsageError, Help."""
    return _given(_context(_root(), PROGRAM, words), OPTIONS)


def _root() -> click.Command:
    params = [option.made(from_environment=True) for option in OPTIONS.values()]
    lines = [f"  {name:<20} {about}" for name, about in ABOUT.items()]
    return _command(PROGRAM, params, "RabbitMQ's command line for the HTTP API, version 2.", lines)


def _group(name: str) -> click.Command:
    lines = [f"  {known}" for group, known in COMMANDS if group == name]
    return _command(name, [OPTIONS[key].made(from_environment=False) for key in EVERYWHERE], ABOUT[name], lines)


def _command(name: str, params: Sequence[click.Parameter], about: str, commands: Sequence[str]) -> click.Command:
    epilog = "\n".join(["\b", "Commands:", *commands])
    command = click.Command(name, params=[*params, _help_option()], help=about, epilog=epilog, add_help_option=False)
    command.allow_interspersed_args = False
    return command


def _leaf(line: CommandSyntax) -> click.Command:
    own = {name for each in line.arguments for name in each.names}
    shared = [OPTIONS[key] for key in EVERYWHERE]
    free = [option.made(from_environment=False) for option in shared if not own.intersection(option.names)]
    params = [*map(_parameter, line.arguments), *free, _help_option()]
    return click.Command(line.path[1], params=params, add_help_option=False)


def _parameter(argument: Argument) -> click.Parameter:
    if not argument.shown.startswith("-"):
        return click.Argument([argument.key], required=False)
    if argument.kind == "flag":
        return click.Option([*argument.names, argument.key], is_flag=True)
    if argument.kind == "list":
        return click.Option([*argument.names, argument.key], type=TYPES[argument.kind], multiple=True)
    return click.Option([*argument.names, argument.key], type=TYPES[argument.kind], default=argument.default)


def _help_option() -> click.Option:
    return click.Option(["-h", "--help", HELP], is_flag=True, help="print this")


def _context(
    command: click.Command, name: str, words: Sequence[str], parent: click.Context | None = None
) -> click.Context:
    """Return the context of a command that has read its words. Raises click.UsageError, Help."""
    with click.Context(command, info_name=name, parent=parent, allow_extra_args=True) as context:
        _, _, order = command.make_parser(context).parse_args(list(words))
        check_repeated(order, context)
        command.parse_args(context, list(words))
    if context.params[HELP]:
        raise Help(command.get_help(context))
    return context


def _next_word(context: click.Context, known: Collection[str]) -> list[str]:
    """The words that are left. The first is a known name or `help`. Raises click.UsageError, Help."""
    left = context.args
    if not left and context.parent is None:
        names = ", ".join([*ABOUT, HELP])
        refuse(f"'{PROGRAM}' requires a subcommand but one was not provided\n  [subcommands: {names}]", context)
    if not left:
        raise Help(context.command.get_help(context), WRONG_LINE)
    if left[0] != HELP and left[0] not in known:
        refuse(f"unrecognized subcommand '{left[0]}'", context)
    return left


def _show_help(root: click.Context, names: Sequence[str]) -> NoReturn:
    context = root
    for depth, name in enumerate(names):
        known = list(ABOUT) if depth == 0 else [each for group, each in COMMANDS if group == names[0]]
        if depth > 1 or name not in known:
            refuse(f"unrecognized subcommand '{name}'", context)
        command = _group(name) if depth == 0 else _leaf(COMMANDS[names[0], name])
        context = click.Context(command, info_name=name, parent=context)
    raise Help(context.command.get_help(context))


def _given(context: click.Context, keys: Collection[str]) -> dict[str, Any]:
    """The options of these keys that the line or the environment gives."""
    return {key: context.params[key] for key in keys if context.params[key] not in (None, False)}


def _has(context: click.Context, key: str) -> bool:
    """An argument is there, or a flag that stands for it."""
    return context.params[key] not in (None, ()) or bool(context.params.get(INSTEAD.get(key, "")))


def _check_leaf(context: click.Context, line: CommandSyntax) -> frozenset[str]:
    """Return the keys of the arguments that are given. Raises click.UsageError."""
    if context.args:
        refuse(f"unexpected argument '{context.args[0]}' found", context)
    missing = [each for each in line.arguments if each.required and not _has(context, each.key)]
    if missing:
        names = "".join(f"\n  {shown_argument(each)}" for each in missing)
        refuse(f"the following required arguments were not provided:{names}", context)
    keys = (each.key for each in line.arguments)
    given = frozenset(key for key in keys if context.get_parameter_source(key) is not ParameterSource.DEFAULT)
    check_conflicts(given, EXCLUSIVE, context)
    return given
