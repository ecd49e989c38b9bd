"""`leveret queue|exchange|binding ...`: made and deleted by hand, on a running broker or a stopped one's stores."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import Any

import click

from broker.admin.commands.queue_admin import (
    AddBinding,
    DeclareExchange,
    DeclareQueue,
    DeleteBinding,
    DeleteExchange,
)
from broker.admin.json_input.strict_json import decode_json
from broker.cli.list_command import show
from broker.cli.node_commands import delete_queue, purge_queue
from broker.cli.table_output import done
from broker.cli.target_broker import Command, Target, json_option, targeted, vhost_option
from broker.cli.usage.command_groups import Commands

argument_option = click.option(
    "--argument", "arguments", multiple=True, metavar="NAME=VALUE", help="An argument; may be repeated."
)
transient_option = click.option("--transient", is_flag=True, help="Not durable: a restart of the broker removes it.")
auto_delete_option = click.option("--auto-delete", is_flag=True, help="Deleted with its last consumer or binding.")


def _arguments(given: Iterable[str]) -> dict[str, Any]:
    """Return arguments by their names. Values are JSON, otherwise texts. Raises UsageError."""
    found = dict[str, Any]()
    for pair in given:
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise click.UsageError(f"expected NAME=VALUE, such as x-max-length=1000, got {pair}")
        try:
            found[name] = decode_json(value)
        except ValueError:
            found[name] = value
    return found


def _declared(what: str, name: str, answer: Any) -> None:
    done(f"{what} {{}} {'is declared' if (answer or {}).get('added', True) else 'was there already'}", name)


def _renamed(command: click.Command, name: str) -> click.Command:
    """Return the same command by another name."""
    other = copy(command)
    other.name = name
    return other


@click.group(cls=Commands)
def queue() -> None:
    """Queues: declare, delete, purge, list."""


@queue.command(name="declare", example="orders --type quorum --argument x-max-length=100000", elsewhere="declare_queue")
@targeted
@vhost_option
@click.option("--type", "kind", metavar="TYPE", help="classic, quorum or stream; default: the virtual host's.")
@transient_option
@auto_delete_option
@argument_option
@click.argument("name")
def declare_queue(
    target: Target,
    vhost: str,
    kind: str | None,
    transient: bool,
    auto_delete: bool,
    arguments: tuple[str, ...],
    name: str,
) -> None:
    """Declare the queue NAME, which is durable. Values of arguments are JSON, otherwise texts."""
    given = {**({"x-queue-type": kind} if kind else {}), **_arguments(arguments)}
    wanted = DeclareQueue(
        vhost=vhost, name=name, durable=not transient, auto_delete=auto_delete, arguments=given or None
    )
    _declared("queue", name, target.run(wanted))


for command, name in ((delete_queue, "delete"), (purge_queue, "purge")):
    queue.add_command(_renamed(command, name))


@queue.command(name="list", example="-p staging")
@targeted
@click.option("-p", "--vhost", metavar="VHOST", help="Only this virtual host; default: all of them.")
@json_option
def list_queues(target: Target, vhost: str | None, as_json: bool) -> None:
    """List the queues; `leveret list queues COLUMN...` has all columns."""
    show(target, "queues", (), vhost, as_json)


@click.group(cls=Commands)
def exchange() -> None:
    """Exchanges: declare, delete, list."""


@exchange.command(name="declare", example="events --type topic", elsewhere="declare_exchange")
@targeted
@vhost_option
@click.option("--type", "kind", default="direct", show_default=True, metavar="TYPE", help="direct, topic, fanout, ...")
@transient_option
@auto_delete_option
@click.option("--internal", is_flag=True, help="Clients may not publish to it.")
@argument_option
@click.argument("name")
def declare_exchange(target: Target, kind: str, transient: bool, arguments: tuple[str, ...], **options: Any) -> None:
    """Declare the exchange NAME, which is durable. Values of arguments are JSON, otherwise texts."""
    wanted = DeclareExchange(type=kind, durable=not transient, arguments=_arguments(arguments) or None, **options)
    _declared("exchange", options["name"], target.run(wanted))


@exchange.command(name="delete", example="events", elsewhere="delete_exchange")
@targeted
@vhost_option
@click.argument("name")
def delete_exchange(target: Target, vhost: str, name: str) -> None:
    """Delete the exchange NAME with its bindings."""
    target.run(DeleteExchange(vhost=vhost, name=name))
    done("exchange {} is deleted", name)


@exchange.command(name="list", example="-p staging")
@targeted
@click.option("-p", "--vhost", metavar="VHOST", help="Only this virtual host; default: all of them.")
@json_option
def list_exchanges(target: Target, vhost: str | None, as_json: bool) -> None:
    """List the exchanges."""
    show(target, "exchanges", (), vhost, as_json)


@click.group(cls=Commands)
def binding() -> None:
    """Bindings: add, delete, list."""


def _ends(command: Command) -> Command:
    """The arguments and options that name a binding."""
    for part in (
        click.option("--to-exchange", is_flag=True, help="DESTINATION is an exchange, not a queue."),
        argument_option,
        click.argument("key", default=""),
        click.argument("destination"),
        click.argument("source"),
        vhost_option,
    ):
        command = part(command)
    return command


@binding.command(name="add", example="events orders 'order.*'", elsewhere="declare_binding")
@targeted
@_ends
def add_binding(target: Target, arguments: tuple[str, ...], **ends: Any) -> None:
    """Bind the queue DESTINATION to the exchange SOURCE, with the routing key KEY or the empty one."""
    target.run(AddBinding(arguments=_arguments(arguments) or None, **ends))
    done("{} is bound to exchange {}", ends["destination"], ends["source"])


@binding.command(name="delete", example="events orders 'order.*'", elsewhere="delete_binding")
@targeted
@_ends
def delete_binding(target: Target, arguments: tuple[str, ...], **ends: Any) -> None:
    """Remove the binding of the queue DESTINATION to the exchange SOURCE that has this KEY and these arguments."""
    target.run(DeleteBinding(arguments=_arguments(arguments) or None, **ends))
    done("{} is not bound to exchange {} in this way any more", ends["destination"], ends["source"])


@binding.command(name="list", example="-p staging")
@targeted
@click.option("-p", "--vhost", metavar="VHOST", help="Only this virtual host; default: all of them.")
@json_option
def list_bindings(target: Target, vhost: str | None, as_json: bool) -> None:
    """List the bindings, those of the default exchange included."""
    show(target, "bindings", (), vhost, as_json)
