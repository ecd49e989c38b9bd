"""What a channel tells the event exchange: see `broker.entities.exchanges.event_exchange`.

A channel has a `ChannelEvents` where events are published, and None elsewhere.
"""

from __future__ import annotations

from typing import Any

from broker.entities.exchanges.event_exchange import INTERNAL, EventExchange, arguments
from broker.entities.queues.consumer_prefetch import Consumer


class ChannelEvents:
    """Publishes events of one channel and its consumers. `connection` is the connection's number, `peer` its name."""

    def __init__(self, exchange: EventExchange, connection: int, peer: str, user: str, vhost: str, number: int) -> None:
        self._exchange = exchange
        self._user = user
        self._vhost = vhost
        self._pid = exchange.pid(connection, number)
        headers = {"pid": self._pid, "name": f"{peer} ({number})", "connection": exchange.pid(connection)}
        where = {"number": number, "user": user, "vhost": vhost}
        exchange.publish("channel.created", {**headers, **where}, user)

    def closed(self) -> None:
        """The channel has ended, or failed."""
        self._exchange.publish("channel.closed", {"pid": self._pid}, self._user)

    def consumer_created(self, consumer: Consumer) -> None:
        """The client consumes from a queue."""
        how = {
            "exclusive": consumer.exclusive,
            "ack_required": not consumer.no_ack,
            "prefetch_count": consumer.prefetch,
            "arguments": arguments(consumer.arguments),
        }
        self._exchange.publish("consumer.created", {**self._consumer(consumer), **how}, self._user)

    def consumer_deleted(self, consumer: Consumer, *, gone: bool) -> None:
        """A consumer has ended: cancelled, with its channel or queue; `gone`: by an error or with its connection."""
        self._exchange.publish("consumer.deleted", self._consumer(consumer), INTERNAL if gone else self._user)

    def _consumer(self, consumer: Consumer) -> dict[str, Any]:
        names = {"consumer_tag": consumer.tag, "queue": consumer.queue.name, "vhost": self._vhost}
        return {**names, "channel": self._pid}
