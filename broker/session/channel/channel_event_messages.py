"""Events of a channel, published to the event exchange (`broker/entities/exchanges/event_exchange.py`).

A channel has a `ChannelEventMessages` if `[event_exchange]` is on, else None.
"""

from __future__ import annotations

from typing import Any

from broker.entities.exchanges.event_exchange import INTERNAL, EventExchange, arguments
from broker.entities.queues.consumer_prefetch import Consumer


class ChannelEventMessages:
    """Publishes events of a channel and its consumers. `connection` is the connection's number, `peer` its name."""

    def __init__(self, exchange: EventExchange, connection: int, peer: str, user: str, vhost: str, number: int) -> None:
        self._exchange = exchange
        self._user = user
        self._vhost = vhost
        self._pid = exchange.pid(connection, number)
        headers = {"pid": self._pid, "name": f"{peer} ({number})", "connection": exchange.pid(connection)}
        where = {"number": number, "user": user, "vhost": vhost}
        exchange.publish("channel.created", {**headers, **where}, user)

    def closed(self) -> None:
        """Publish channel.closed."""
        self._exchange.publish("channel.closed", {"pid": self._pid}, self._user)

    def consumer_created(self, consumer: Consumer) -> None:
        """Publish consumer.created."""
        how = {
            "exclusive": consumer.exclusive,
            "ack_required": not consumer.no_ack,
            "prefetch_count": consumer.prefetch,
            "arguments": arguments(consumer.arguments),
        }
        self._exchange.publish("consumer.created", {**self._consumer(consumer), **how}, self._user)

    def consumer_deleted(self, consumer: Consumer, *, gone: bool) -> None:
        """Publish consumer.deleted; `gone`: the consumer ended by an error or with its connection, not by its user."""
        self._exchange.publish("consumer.deleted", self._consumer(consumer), INTERNAL if gone else self._user)

    def _consumer(self, consumer: Consumer) -> dict[str, Any]:
        names = {"consumer_tag": consumer.tag, "queue": consumer.queue.name, "vhost": self._vhost}
        return {**names, "channel": self._pid}
