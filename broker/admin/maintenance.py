"""Looking after a broker: its state, its connections, its queues, and copies of its stores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from broker.admin.administration import Administration
from broker.admin.command_arguments import Arguments, invalid, not_found


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


async def close_connection(administration: Administration, arguments: Arguments) -> None:
    """Send a client away: 320 CONNECTION_FORCED with a reason."""
    name, reason = arguments.text("name"), arguments.text("reason")
    found = [connection for connection in administration.registry.network_connections if str(connection.peer) == name]
    if not found:
        raise not_found(f"no connection '{name}'")
    for connection in found:
        connection.force_close(reason)


async def delete_queue(administration: Administration, arguments: Arguments) -> dict[str, int]:
    """Delete a queue, even one in use; answers with the number of ready messages deleted with it."""
    queue = administration.queue(arguments.text("vhost"), arguments.text("name"))
    vhost = administration.vhost(arguments.text("vhost"))
    return {"messages": await administration.settled(vhost.delete_queue(queue))}


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
