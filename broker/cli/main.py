"""The command `leveret`. Only the verb that is used is imported: starting the broker is in a hurry."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import NamedTuple, NoReturn

import click

from broker import __version__
from broker.admin.protocol import AdministrationError
from broker.config import ConfigError
from storage.storage_errors import StoreError

EXPECTED = (ConfigError, AdministrationError, StoreError, OSError)
"""What may go wrong without anything being wrong with the program: one clear line is the whole answer."""


class Verb(NamedTuple):
    """Where a verb's command is defined."""

    module: str
    attribute: str


VERBS = {
    "serve": Verb("serve_command", "serve"),
    "config": Verb("config_command", "config"),
    "status": Verb("node_commands", "status"),
    "ping": Verb("node_commands", "ping"),
    "list": Verb("list_command", "listing"),
    "user": Verb("user_commands", "user"),
    "vhost": Verb("user_commands", "vhost"),
    "permission": Verb("user_commands", "permission"),
    "topic-permission": Verb("user_commands", "topic_permission"),
    "policy": Verb("policy_commands", "policy"),
    "operator-policy": Verb("policy_commands", "operator_policy"),
    "parameter": Verb("parameter_commands", "parameter"),
    "global-parameter": Verb("parameter_commands", "global_parameter"),
    "cluster-name": Verb("parameter_commands", "cluster_name"),
    "import": Verb("node_commands", "import_"),
    "export": Verb("node_commands", "export"),
    "backup": Verb("node_commands", "backup"),
    "archive": Verb("jobs.archive_command", "archive"),
    "check": Verb("node_commands", "check"),
    "inspect": Verb("inspect_command", "inspect"),
    "health": Verb("health_command", "health"),
    "environment": Verb("running_commands", "environment"),
    "memory": Verb("running_commands", "memory"),
    "report": Verb("running_commands", "report"),
    "wait": Verb("running_commands", "wait"),
    "stop": Verb("running_commands", "stop"),
    "set-memory-high-watermark": Verb("running_commands", "set_memory_high_watermark"),
    "set-disk-free-limit": Verb("running_commands", "set_disk_free_limit"),
    "close-connection": Verb("node_commands", "close_connection"),
    "close-connections": Verb("running_commands", "close_connections"),
    "delete-queue": Verb("node_commands", "delete_queue"),
    "purge-queue": Verb("node_commands", "purge_queue"),
    "trace": Verb("trace_command", "trace"),
    "pipeline": Verb("jobs.pipeline_group", "pipeline"),
    "rabbitmqctl": Verb("rabbitmq.ctl_command", "rabbitmqctl"),
    "rabbitmq-diagnostics": Verb("rabbitmq.ctl_command", "rabbitmq_diagnostics"),
    "rabbitmq-plugins": Verb("rabbitmq.ctl_command", "rabbitmq_plugins"),
    "rabbitmq-queues": Verb("rabbitmq.ctl_command", "rabbitmq_queues"),
    "rabbitmq-upgrade": Verb("rabbitmq.ctl_command", "rabbitmq_upgrade"),
    "rabbitmqadmin": Verb("rabbitmq.rabbitmqadmin.admin_command", "rabbitmqadmin"),
}


LINKS = frozenset(name for name in VERBS if name.startswith("rabbitmq"))
"""The names by which the program is one of RabbitMQ's."""


class Verbs(click.Group):
    """A group whose commands are imported when asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        verb = VERBS.get(cmd_name)
        if verb is None:
            return None
        command = getattr(importlib.import_module(f"broker.cli.{verb.module}"), verb.attribute)
        assert isinstance(command, click.Command)
        return command


@click.command(
    cls=Verbs,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done, 1 it could not be done (one line on standard error says why), 2 wrong usage.",
)
@click.version_option(__version__, message="leveret %(version)s")
def leveret() -> None:
    """Leveret, a durable AMQP 0-9-1 broker.

    Commands are for the data directory that --data-dir, --config or the environment variables LEVERET_DATA_DIR and
    LEVERET_CONFIG name. A running broker carries them out at once; a stopped one's stores are changed directly.
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command line, that of this process if none is given, and exit.

    A link to the program that is named as one of RabbitMQ's is that command.
    """
    called = Path(sys.argv[0]).name
    if arguments is None and called in LINKS:
        arguments = [called, *sys.argv[1:]]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # Names are bytes; those that are not UTF-8 are printed as they are.
            stream.reconfigure(errors="surrogateescape")
    end_with(lambda: leveret.main(arguments, prog_name="leveret"))


def end_with(command: Callable[[], int]) -> NoReturn:
    """Carry out a command and exit with its code; what may be expected to go wrong is one line and code 1."""
    try:
        sys.exit(command())
    except Exception as error:
        causes = list(_causes(error))
        if not all(isinstance(cause, EXPECTED) for cause in causes):
            raise
        for cause in causes:
            click.echo(f"leveret: error: {_sentence(cause)}", err=True)
        sys.exit(1)


def _causes(error: Exception) -> Iterator[Exception]:
    """The error itself, or those that a group of tasks ended with."""
    if isinstance(error, ExceptionGroup):
        for inner in error.exceptions:
            yield from _causes(inner)
    else:
        yield error


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
    return str(error)
