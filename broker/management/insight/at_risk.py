"""What is not on disk at this moment, and which publishers are held."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nlargest
from typing import Any, NamedTuple

from broker.admin.short_steps import AT_ONCE, in_steps
from broker.entities.node.broker import Broker
from broker.entities.queues.queue import Queue
from broker.entities.scheduling.alarms import DISK, MEMORY
from broker.management.call import Management
from broker.management.columns import ABSENT
from broker.management.rows.connection_row import given_name
from broker.session.channel.channel import Channel
from broker.session.connection import Connection
from broker.wire.methods import BasicPublish

LISTED_MAX = 100
"""How many connections are listed: those with most."""


class Open(NamedTuple):
    """What a connection has published that is not answered: messages that wait for a confirm, or for a commit."""

    connection: Connection
    unconfirmed: int
    uncommitted: int


async def unconfirmed(api: Management) -> dict[str, Any]:
    """What a crash at this moment would undo; nothing of it is confirmed. Worked out in steps."""
    each_open = [_open(connection) async for connection in in_steps(api.registry.network_connections)]
    waiting = [each for each in each_open if _messages(each)]
    transient = unacknowledged = 0
    async for queue in in_steps(_queues(api.broker), at_once=AT_ONCE):
        transient += max(0, queue.messages - queue.store.state.messages)
        unacknowledged += queue.unacked
    batches = api.broker.batches
    return {
        "unconfirmed": sum(each.unconfirmed for each in waiting),
        "uncommitted": sum(each.uncommitted for each in waiting),
        "transient": transient,
        "unacknowledged": unacknowledged,
        "unwritten_bytes": batches.unstored_bytes,
        "batches": len(batches.sealed) + (not batches.current.empty),
        "publishers": len(waiting),
        "connections": [_shown(each) for each in nlargest(LISTED_MAX, waiting, key=_messages)],
    }


def _queues(broker: Broker) -> list[Queue]:
    return [queue for vhost in broker.vhosts.values() for queue in vhost.queues.values()]


def _open(connection: Connection) -> Open:
    channels = connection.channels.values()
    return Open(
        connection,
        sum(_unanswered(channel) for channel in channels if channel.confirms is not None),
        sum(len(channel.transaction.publishes) for channel in channels if channel.transaction is not None),
    )


def _unanswered(channel: Channel) -> int:
    """Publishes without an answer, those among them that an alarm holds back."""
    assert channel.confirms is not None, "a channel in confirm mode"
    return channel.confirms.unanswered + sum(held.key == BasicPublish.KEY for held in channel.held)


def _messages(each: Open) -> int:
    return each.unconfirmed + each.uncommitted


def _shown(each: Open) -> dict[str, Any]:
    return {**_named(each.connection), "unconfirmed": each.unconfirmed, "uncommitted": each.uncommitted}


def _named(connection: Connection) -> dict[str, Any]:
    given = given_name(connection.client_properties)
    client = "" if given is ABSENT else given
    return {"name": str(connection.peer), "client": client, "user": connection.user, "vhost": connection.vhost_name}


def alarms(api: Management) -> dict[str, Any]:
    """Which of memory and disk are short, and the connections that are held for it."""
    status, raised = api.status(), api.broker.alarms
    held = [each for each in api.registry.network_connections if each.blocked or each.held_bytes]
    return {
        "raised": raised.raised,
        "reason": raised.reason if raised.raised else "",
        "memory": {
            "raised": raised.is_raised(MEMORY),
            "used": status["memory"]["used_bytes"],
            "limit": status["memory"]["limit_bytes"],
        },
        "disk": {
            "raised": raised.is_raised(DISK),
            "free": status["disk"]["free_bytes"],
            "limit": status["disk"]["limit_bytes"],
        },
        "held_connections": len(held),
        "held_bytes": sum(each.held_bytes for each in held),
        "held": [{**_named(each), "blocked": each.blocked, "held_bytes": each.held_bytes} for each in _most_held(held)],
    }


def _most_held(held: Iterable[Connection]) -> list[Connection]:
    return nlargest(LISTED_MAX, held, key=lambda each: each.held_bytes)
