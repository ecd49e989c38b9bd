"""Tells whether a command line is one of `rabbitmqadmin` version 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker.admin.protocol import AdministrationError
from broker.config import ConfigError
from broker.rabbitmq.admin.admin_help import HELP_TOPICS
from broker.rabbitmq.admin.admin_kinds import CHANGED, LISTED, SHOWN
from broker.rabbitmq.admin.admin_options import WrongUsage, parser, read_options

ALONE = frozenset({"--version", "--bash-completion"})
"""Options of version 1 that need no subcommand."""


def understands(words: Sequence[str]) -> bool:
    """A line makes sense to version 1: its options, its configuration file, and its subcommand."""
    if ALONE.intersection(words):
        return True
    reader = parser()
    reader.remove_option("--help")
    reader.add_option("-h", "--help", action="store_true", dest="help")
    try:
        values, rest = reader.parse_args(list(words))
        if values.help:
            return True
        read_options(words)
    except WrongUsage:
        return False
    except (AdministrationError, ConfigError):
        pass  # the broker is not there, whatever the version
    return bool(rest) and _is_subcommand(*rest)


def _is_subcommand(action: str, *words: str) -> bool:
    checks: dict[str, Callable[[Sequence[str]], bool]] = {
        "help": lambda words: len(words) < 2 and all(word in HELP_TOPICS for word in words),
        "list": lambda words: bool(words) and words[0] in LISTED,
        "show": lambda words: bool(words) and words[0] in SHOWN,
        "export": lambda words: len(words) == 1,
        "import": lambda words: len(words) == 1,
        "publish": _are_arguments,
        "get": _are_arguments,
    }
    if action in checks:
        return checks[action](words)
    return action in CHANGED and _are_arguments(words[1:])


def _are_arguments(words: Sequence[str]) -> bool:
    return bool(words) and all("=" in word for word in words)
