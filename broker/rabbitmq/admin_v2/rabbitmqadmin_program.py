"""`leveret rabbitmqadmin`: version 1 or 2 of the program, as the command line and the broker want it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

import click

from broker.admin.protocol import AdministrationError
from broker.cli.named_directory import named, target_settings
from broker.config import ConfigError
from broker.rabbitmq.admin import rabbitmqadmin_command
from broker.rabbitmq.admin.admin_grammar import understands
from broker.rabbitmq.admin.admin_http import Api, Endpoint, RequestFailed
from broker.rabbitmq.admin.admin_options import WrongUsage, read_options
from broker.rabbitmq.admin_v2 import admin_v2_run
from broker.rabbitmq.admin_v2.command_tree import Help, options_of, parse
from broker.rabbitmq.admin_v2.program_options import OPTIONS
from broker.rabbitmq.admin_v2.run_settings import Failure, run_settings
from broker.rabbitmq.program import program_command
from broker.rabbitmq.spoken_identity import spoken_identity

FIRST_WITH_2 = 4
"""The major version of RabbitMQ that version 2 of the program comes beside."""
VARIABLES = frozenset(option.variable for option in OPTIONS.values() if option.variable is not None)
HELP_OPTIONS = frozenset({"-h", "--help"})
ANSWER_SECONDS = 5.0
"""Longest time for a broker to say which RabbitMQ it is."""
UNREAD = (WrongUsage, Failure, Help, click.UsageError, AdministrationError, ConfigError)
"""Errors of lines that name no broker that could be asked."""


def run(words: Sequence[str]) -> int:
    """Carry out a command line as the version that it is for; the exit code."""
    return (admin_v2_run.run if _is_for_2(words) else rabbitmqadmin_command.run)(words)


def _is_for_2(words: Sequence[str]) -> bool:
    """A line that one version alone understands is for that one; else the broker that is asked decides.

    Where the environment has settings of version 2, which version 1 would not heed, all lines are for version 2.
    """
    if VARIABLES.intersection(os.environ):
        return True
    first, second = understands(words), _understood_by_2(words)
    return second if first != second else _asked_is_4(words)


def _understood_by_2(words: Sequence[str]) -> bool:
    try:
        run_settings(parse(words).options)
    except Help as asked:
        return asked.code == 0
    except (click.UsageError, Failure):
        return False
    except (AdministrationError, ConfigError):
        return True  # the broker is not there, whatever the version
    return True


def _asked_is_4(words: Sequence[str]) -> bool:
    """The broker of a line says that it is a RabbitMQ 4; one that does not tell is as the settings say."""
    for endpoint in _endpoints(words) if HELP_OPTIONS.isdisjoint(words) else ():
        with suppress(RequestFailed, ValueError, KeyError, TypeError):
            return _major(_version_at(endpoint)) >= FIRST_WITH_2
    try:
        return _major(spoken_identity(target_settings(named())).series) >= FIRST_WITH_2
    except ConfigError:
        return False


def _endpoints(words: Sequence[str]) -> Iterator[Endpoint]:
    """The API that a line names, as version 1 reads it and, where that is another one, as version 2 does."""
    found = None
    with suppress(*UNREAD):
        found = read_options(words)[0].endpoint
        yield found
    with suppress(*UNREAD):
        other = run_settings(options_of(words)).endpoint
        if found is None or (other.host, other.port) != (found.host, found.port):
            yield other


def _version_at(endpoint: Endpoint) -> str:
    brief = endpoint._replace(seconds=min(ANSWER_SECONDS, endpoint.seconds))
    answer = json.loads(Api(brief).request("GET", "/overview?columns=rabbitmq_version"))
    return str(answer["rabbitmq_version"])


def _major(version: str) -> int:
    found = re.match(r"\d+", version)
    return int(found[0]) if found else 0


rabbitmqadmin = program_command("rabbitmqadmin", "RabbitMQ's command line for the management API.", run)
