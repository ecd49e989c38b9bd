"""Texts for command lines that make no sense to `rabbitmqadmin` version 2."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import NoReturn

import click

from broker.rabbitmq.admin_v2.command_lines import COMMANDS, Argument
from broker.rabbitmq.admin_v2.program_options import OPTIONS
from broker.rabbitmq.admin_v2.value_types import Unusable

WRONG_LINE = 2
HINT = "For more information, try '--help'."
CONFLICTS = (
    ("base_uri", "port"),
    ("base_uri", "host"),
    ("verbose", "quiet"),
    ("table_style", "non_interactive"),
)
"""Options of the program that may not be given together; the refusal names the second first."""
EXCLUSIVE = (
    ("file", "stdout"),
    ("file", "stdin"),
    ("hashing_algorithm", "password_hash"),
    ("source_exchange", "source_queue"),
    ("source_exchange_routing_key", "source_queue"),
    ("destination_exchange", "destination_queue"),
    ("destination_exchange_routing_key", "destination_queue"),
)
"""The same for arguments of commands."""
WITHOUT_VALUE = frozenset({"stdout", "stdin"}) | {key for key, option in OPTIONS.items() if option.kind == "flag"}


def refusal(error: click.UsageError) -> str:
    """The text for a line that makes no sense."""
    usage = "" if isinstance(error, (Unusable, click.BadOptionUsage)) or error.ctx is None else _usage(error.ctx)
    return f"error: {_words(error)}{usage}\n\n{HINT}"


def refuse(text: str, context: click.Context) -> NoReturn:
    """Raise click.UsageError."""
    raise click.UsageError(text, context)


def check_conflicts(given: Collection[str], pairs: Sequence[tuple[str, str]], context: click.Context) -> None:
    """Refuse a line with both of two options that exclude each other. Raises click.UsageError."""
    for first, second in pairs:
        if first in given and second in given:
            refuse(f"the argument '{_named(second)}' cannot be used with '{_named(first)}'", context)


def check_repeated(order: Sequence[click.Parameter], context: click.Context) -> None:
    """Refuse a line with an option twice; lists may be given in parts. Raises click.UsageError."""
    for param, count in Counter(order).items():
        if count > 1 and not param.multiple and param.name is not None:
            refuse(f"the argument '{_named(param.name)}' cannot be used multiple times", context)


def shown_argument(argument: Argument) -> str:
    """An argument as usage shows it."""
    return f"{argument.shown} <{argument.key}>" if argument.shown.startswith("-") else f"<{argument.key}>"


def _named(key: str) -> str:
    return f"--{key.replace('_', '-')}{'' if key in WITHOUT_VALUE else f' <{key}>'}"


def _words(error: click.UsageError) -> str:
    if isinstance(error, click.NoSuchOption):
        tip = f"\n\n  tip: a similar argument exists: '{error.possibilities[0]}'" if error.possibilities else ""
        return f"unexpected argument '{error.option_name}' found{tip}"
    if isinstance(error, click.BadOptionUsage):
        name = error.option_name
        return f"a value is required for '{name} <{name.lstrip('-').replace('-', '_')}>' but none was supplied"
    return error.message


def _usage(context: click.Context) -> str:
    names: list[str] = []
    place: click.Context | None = context
    while place is not None:
        names.insert(0, place.info_name or "")
        place = place.parent
    path = " ".join(names)
    if len(names) == 1:
        return f"\n\nUsage: {path} [OPTIONS] <COMMAND>"
    if len(names) == 2:
        return f"\n\nUsage: {path} [OPTIONS] [COMMAND]"
    needed = [shown_argument(each) for each in COMMANDS[names[1], names[2]].arguments if each.required]
    return f"\n\nUsage: {path} {' '.join(needed) or '[OPTIONS]'}"
