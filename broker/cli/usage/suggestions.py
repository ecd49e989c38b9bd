"""Suggestions for unknown commands and options."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence

import click

from broker.cli.catalogue import TOP
from broker.cli.usage.command_groups import CommandWithExample, meant
from broker.cli.usage.listing_kinds import LISTINGS
from broker.rabbitmq.ctl.verb_catalogue import VERB_LINES

ANSWERED_BY_OPTIONS = {"version": "--version", "help": "--help"}

OPTIONS = {
    "--port": "--listen",
    "--host": "--listen",
    "--bind": "--listen",
    "--address": "--listen",
    "--format": "--json",
    "--formatter": "--json",
    "--output": "--json",
    "--data": "--data-dir",
    "--datadir": "--data-dir",
    "--node": "--data-dir",
    "-n": "--data-dir",
    "--vhost": "-p",
    "--conf": "--config",
    "-c": "--config",
}
"""Names of options elsewhere, and the option here."""
COUNTS = ("-n", "--limit", "--number", "--max")
"""Options elsewhere for a number of messages, where a command has --count."""
SYNONYMS = {
    "add": "create new make put insert declare bind",
    "declare": "create new make put add",
    "delete": "remove rm del drop destroy unbind clear",
    "clear": "remove rm del delete unset drop",
    "list": "ls show all get",
    "show": "list get print view cat",
    "set": "update change modify edit put",
    "check": "test validate verify lint",
    "change-password": "password passwd set-password",
    "authenticate": "check login auth",
    "running": "check status alive ping",
    "limits": "list-limits",
}
"""Commands of groups, and the words that others have for them."""
RABBITMQ_VERBS = frozenset(line.name for line in VERB_LINES)
BEHIND = {"--listen": "`leveret serve --listen`", "--json": "`leveret list queues --json`"}
"""Commands that have an option which was given before the command."""


def meant_command(word: str, known: Iterable[tuple[str, CommandWithExample]]) -> str:
    """Return the error for an unknown command, with a suggestion out of those that are known."""
    ours = _ours(word, {name: path for path, command in known for name in command.elsewhere})
    hints = [] if ours is None else [f"did you mean `leveret {ours}`?"]
    if word in RABBITMQ_VERBS:
        hints.append(f"RabbitMQ's own is `leveret rabbitmqctl {word}`")
    return f"there is no command '{word}': {' '.join(hints) or '`leveret --help` lists all'}"


def meant_in_group(path: str, word: str, known: Sequence[str]) -> str:
    """Return the error for an unknown command of a group, with a suggestion or, without one, all that there are."""
    close = [name for name in known if word in SYNONYMS.get(name, "").split()]
    close = close or difflib.get_close_matches(word, known, 1)
    hint = f"did you mean `{path} {close[0]}`?" if close else f"there are {', '.join(known)}"
    return f"there is no command '{path} {word}': {hint}"


def missing_argument(error: click.MissingParameter, path: Callable[[click.Context], str]) -> str:
    """Return the error for an argument that is not there, with the example of its command."""
    name = "an argument" if error.param is None else error.param.human_readable_name.removeprefix("-- ")
    command = None if error.ctx is None else error.ctx.command
    kinds = f", one of {', '.join(LISTINGS)}" if name == "KIND" else ""
    if error.ctx is None or not isinstance(command, CommandWithExample) or not command.example:
        return f"{name} is missing{kinds}"
    return f"{name} is missing{kinds}; for example: {path(error.ctx)} {command.example}"


def _ours(word: str, elsewhere: dict[str, str]) -> str | None:
    if word in elsewhere or word in ANSWERED_BY_OPTIONS:
        return elsewhere.get(word) or ANSWERED_BY_OPTIONS[word]
    kind = word.removeprefix("list_").removeprefix("list-")
    lists = {name: f"list {name}" for name in LISTINGS}
    listed = meant(kind, lists)
    if listed is None and word not in RABBITMQ_VERBS:
        listed = next(iter(difflib.get_close_matches(kind, [*TOP, *lists], 1)), None)
    return None if listed is None else lists.get(listed, listed)


def meant_option(error: click.NoSuchOption) -> str:
    """Return the error for an unknown option, with a suggestion."""
    known = [] if error.ctx is None else [name for each in error.ctx.command.params for name in each.opts]
    wanted = OPTIONS.get(error.option_name, "")
    if error.option_name in COUNTS and "--count" in known:
        wanted = "--count"
    close = [wanted] if wanted in known else error.possibilities or []
    if wanted in BEHIND and error.ctx is not None and error.ctx.parent is None:
        close = [BEHIND[wanted]]
    hint = f"did you mean {' or '.join(close)}?" if close else "--help lists all"
    return f"there is no option {error.option_name}: {hint}"
