"""Messages that are not on disk at this moment, and would be lost by a crash."""

from __future__ import annotations

from heapq import nlargest
from typing import Any, NamedTuple

from broker.admin.short_steps import AT_ONCE, in_steps
from broker.admin.views.columns import ABSENT
from broker.entities.node.broker import Broker
from broker.entities.queues.queue import Queue
from broker.management.management_api import ManagementApi
from broker.management.rows.connection_rows import given_name
from broker.session.channel.channel import Channel
from broker.session.connection import Connection
from broker.wire.methods import BasicPublish

LISTED_MAX = 100
"""Connections that are listed: those with most."""


class Open(NamedTuple):
    """A connection with the count of its publishes that wait for a confirm, or for a tx.commit."""

    connection: Connection
    unconfirmed: int
    uncommitted: int


async def unconfirmed(api: ManagementApi) -> dict[str, Any]:
    """Count, in short steps, the messages that a crash at this moment would lose; none of them is confirmed."""
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
    """Publishes without an answer, including those that an alarm holds back."""
    assert channel.confirms is not None, "a channel in confirm mode"
    return channel.confirms.unanswered + sum(held.key == BasicPublish.KEY for held in channel.held)


def _messages(each: Open) -> int:
    return each.unconfirmed + each.uncommitted


def _shown(each: Open) -> dict[str, Any]:
    return {**named(each.connection), "unconfirmed": each.unconfirmed, "uncommitted": each.uncommitted}


def named(connection: Connection) -> dict[str, Any]:
    """The columns by which the page names a connection."""
    given = given_name(connection.client_properties)
    client = "" if given is ABSENT else given
    return {"name": str(connection.peer), "client": client, "user": connection.user, "vhost": connection.vhost_name}
