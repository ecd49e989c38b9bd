"""`leveret status|ping|export|import|...`: look after a broker."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click

from broker.admin.commands.connection_admin import CloseConnection
from broker.admin.commands.definitions_admin import ExportDefinitions, ImportDefinitions
from broker.admin.commands.node_admin import Ping, Status
from broker.admin.commands.queue_admin import DeleteQueue, PurgeQueue
from broker.admin.json_input.strict_json import decode_json
from broker.admin.protocol import AdministrationError
from broker.cli.jobs.export_command import export_events
from broker.cli.table_output import counted, done, show_tree
from broker.cli.target_broker import Target, json_option, targeted, vhost_option
from broker.cli.usage.command_groups import Commands, CommandWithExample

PING_SECONDS = 5.0

file_argument = click.argument("file", type=click.Path(path_type=Path, allow_dash=True))


@click.command(cls=CommandWithExample, example="--json", elsewhere="cluster_status")
@targeted
@json_option
def status(target: Target, as_json: bool) -> None:
    """Show version, addresses, alarms, memory, disk and totals of the running broker."""
    facts = target.ask(Status())
    show_tree(facts, as_json)
    if "testing" in facts and not as_json:
        click.secho(facts["testing"], fg="red", err=True)


@click.command(cls=CommandWithExample, example="--data-dir /var/lib/leveret")
@targeted
def ping(target: Target) -> None:
    """Exit with 0 if a broker runs here and answers within five seconds, else with 1: for health checks."""
    target.ask(Ping(), timeout_seconds=PING_SECONDS)
    click.echo("pong")


@click.group(cls=Commands)
def export() -> None:
    """Export definitions, or the event log."""


@export.command(name="definitions", example="definitions.json", elsewhere="export_definitions")
@targeted
@file_argument
def export_definitions(target: Target, file: Path) -> None:
    """Write users, virtual hosts, permissions, exchanges, queues and bindings to FILE (- is standard output).

    The format is RabbitMQ's definitions JSON. A new FILE is readable by its owner alone: it has password hashes.
    """
    written = json.dumps(target.run(ExportDefinitions()), indent=2) + "\n"
    if str(file) == "-":
        click.echo(written, nl=False)
        return
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as out:  # noqa: PTH123
        out.write(written)
    done("definitions are in {}", str(file))


export.add_command(export_events)


@click.group(cls=Commands, name="import")
def import_() -> None:
    """Import definitions."""


@import_.command(name="definitions", example="definitions.json", elsewhere="import_definitions")
@targeted
@file_argument
@json_option
def import_definitions(target: Target, file: Path, as_json: bool) -> None:
    """Import FILE, RabbitMQ's definitions JSON (- is standard input).

    Existing exchanges and queues stay as they are. The numbers of created and changed definitions are printed.
    """
    answer = target.run(ImportDefinitions(definitions=_read_definitions(file)), timeout_seconds=None)
    show_tree(answer, as_json)


def _read_definitions(file: Path) -> Any:
    try:
        with click.open_file(str(file), encoding="utf-8") as opened:
            return decode_json(opened.read())
    except ValueError as error:
        raise AdministrationError("invalid", f"{file}: is not JSON: {error}") from error


@click.command(
    name="close-connection", cls=CommandWithExample, example="'127.0.0.1:40312 -> 127.0.0.1:5672' 'maintenance'"
)
@targeted
@click.argument("name")
@click.argument("reason", default="Closed via the command line")
def close_connection(target: Target, name: str, reason: str) -> None:
    """Close the connection NAME (or pid, see `list connections`) with 320 CONNECTION_FORCED and this REASON."""
    target.ask(CloseConnection(name=name, reason=reason))
    done("connection {} is closed", name)


@click.command(name="delete-queue", cls=CommandWithExample, example="--if-empty orders")
@targeted
@vhost_option
@click.option("--if-empty", is_flag=True, help="Only if it has no ready messages.")
@click.option("--if-unused", is_flag=True, help="Only if it has no consumers.")
@click.argument("name")
def delete_queue(target: Target, vhost: str, if_empty: bool, if_unused: bool, name: str) -> None:
    """Delete the queue NAME with its messages."""
    answer = target.run(DeleteQueue(vhost=vhost, name=name, if_empty=if_empty, if_unused=if_unused))
    done("queue {} is deleted with {}", name, counted(answer["messages"], "message"))


@click.command(name="purge-queue", cls=CommandWithExample, example="orders")
@targeted
@vhost_option
@click.argument("name")
def purge_queue(target: Target, vhost: str, name: str) -> None:
    """Delete the ready messages of the queue NAME."""
    answer = target.run(PurgeQueue(vhost=vhost, name=name))
    done("queue {} is purged of {}", name, counted(answer["messages"], "message"))
