"""Looking after a broker: its state, its connections, its queues, and copies of its stores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from broker.admin.administration import Administration
from broker.admin.command_arguments import Arguments
from broker.admin.protocol import AdministrationError, invalid, not_found
from broker.entities.queues.streams.stream_queue import Stream


def ping(administration: Administration, arguments: Arguments) -> str:
    """Answer, as only a broker whose event loop turns can."""
    return "pong"


def status(administration: Administration, arguments: Arguments) -> dict[str, Any]:
    """What this broker is and how it does. Sizes are bytes, times seconds."""
    return {**administration.status(), "totals": _totals(administration)}


def _totals(administration: Administration) -> dict[str, int]:
    connections = administration.registry.network_connections
    vhosts = administration.broker.vhosts.values()
    queues = [queue for vhost in vhosts for queue in vhost.queues.values()]
    return {
        "connections": len(connections),
        "channels": sum(len(connection.channels) for connection in connections),
        "vhosts": len(vhosts),
        "exchanges": sum(len(vhost.exchanges) for vhost in vhosts),
        "queues": len(queues),
        "consumers": sum(len(queue.consumers) for queue in queues),
        "messages_ready": sum(queue.ready for queue in queues),
        "messages_unacknowledged": sum(queue.unacked for queue in queues),
    }


async def delete_queue(administration: Administration, arguments: Arguments) -> dict[str, int]:
    """Delete a queue; answers with the number of ready messages deleted with it.

    With `if_unused` or `if_empty` raises AdministrationError `refused` for one with consumers, or ready messages.
    """
    vhost = administration.vhost(arguments.text("vhost"))
    queue = administration.queue(vhost.name, arguments.text("name"))
    if arguments.flag("if_unused") and len(queue.consumers):
        raise AdministrationError("refused", f"queue '{queue.name}' in vhost '{vhost.name}' in use")
    if arguments.flag("if_empty") and queue.ready:
        raise AdministrationError("refused", f"queue '{queue.name}' in vhost '{vhost.name}' not empty")
    return {"messages": await administration.settled(vhost.delete_queue(queue, administration.by))}


async def delete_exchange(administration: Administration, arguments: Arguments) -> None:
    """Delete an exchange with its bindings. Raises AdministrationError `refused` for one that is always there."""
    vhost, name = administration.vhost(arguments.text("vhost")), arguments.text("name")
    exchange = vhost.exchanges.get(name)
    if exchange is None:
        raise not_found(f"no exchange '{name}' in vhost '{vhost.name}'")
    if not name or name.startswith("amq."):
        raise AdministrationError("refused", f"exchange name '{name}' contains reserved prefix 'amq.*'")
    await administration.settled(vhost.delete_exchange(exchange, administration.by))


def stream_status(administration: Administration, arguments: Arguments) -> dict[str, int]:
    """How far a stream has come: offsets, what reads it, and the segments that it is kept in."""
    queue = administration.queue(arguments.text("vhost"), arguments.text("name"))
    if not isinstance(queue, Stream):
        raise invalid(f"queue '{queue.name}' is no stream")
    log = queue.log
    offsets = {"offset": log.next - 1, "committed_offset": log.stored - 1, "first_offset": log.first}
    return {**offsets, "readers": len(queue.consumers), "segments": len(log.segments)}


async def purge_queue(administration: Administration, arguments: Arguments) -> dict[str, int]:
    """Drop a queue's ready messages, on disk too when this returns; answers with their number."""
    queue = administration.queue(arguments.text("vhost"), arguments.text("name"))
    messages = queue.purge()
    await administration.written()
    return {"messages": messages}


async def backup(administration: Administration, arguments: Arguments) -> None:
    """Copy both stores into a new directory while everything goes on."""
    name = arguments.name("directory")
    if "\0" in name:
        raise invalid("argument directory: holds a zero byte")
    await administration.copy_stores(Path(name))
