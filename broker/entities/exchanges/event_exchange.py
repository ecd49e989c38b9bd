"""The event exchange: events of queues, connections, users and so on, published to exchange amq.rabbitmq.event.

As RabbitMQ's plugin rabbitmq_event_exchange: keys such as `queue.created`, all data in headers, no body; RabbitMQ 3.10
on the wire is the model. With the setting on, a broker has an `EventExchange`, which is told of each event; otherwise
that is None. No event has secrets.

Events are published by a timer, PORTION at a time, never during the change that they describe. While publishers are
blocked, or the disk is far behind, they wait: at most WAITING_MAX of them, further ones are dropped.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from broker.entities.arguments import erlang_terms
from broker.entities.exchanges.exchange import Binding, Exchange
from broker.entities.exchanges.routing import Routing, hand_over
from broker.entities.messages.message import Message, headers_of, route_of
from broker.entities.queues.queue import Queue
from broker.entities.scheduling.alarms import Alarms
from broker.entities.scheduling.pending_batches import PendingBatches
from broker.entities.scheduling.timers import Timers
from broker.entities.statistics.node_identity import NodeIdentity
from broker.wire.field_tables import Field, Table, decode_table, string
from broker.wire.properties import BasicProperties, encode_header
from storage.batch import PERSISTENT

log = logging.getLogger("leveret.event_exchange")

NAME = "amq.rabbitmq.event"
INTERNAL = "rmq-internal"
"""RabbitMQ's name for the broker itself as the acting user."""
CLI = "rmq-cli"
"""RabbitMQ's name for the command line as the acting user."""

WAITING_MAX = 10_000
"""Most events that wait at one time; some 10 MB."""
PORTION = 256
"""Events published in one turn."""
AGAIN_MILLISECONDS = 20
"""Time after which waiting events are tried again."""


class EventSettings(NamedTuple):
    """The virtual host in which events are published, and the node's name."""

    vhost: str
    node: str


class EventExchange:
    """Publishes events. `routing` returns the virtual host's, or None if that does not exist."""

    def __init__(
        self,
        settings: EventSettings,
        boot: int,
        now: Callable[[], int],
        timers: Timers,
        batches: PendingBatches,
        alarms: Alarms,
        routing: Callable[[], Routing | None],
    ) -> None:
        self.vhost, self.node = settings
        self._identity = NodeIdentity(settings.node, boot)
        self._now = now
        self._timers = timers
        self._batches = batches
        self._alarms = alarms
        self._routing = routing
        self._waiting: deque[Message] = deque()
        self._urgent: deque[Message] = deque()
        self._dropped = 0
        alarms.observe_each(self._alarm)

    def publish(self, key: str, headers: Mapping[str, object], by: str | None = None) -> None:
        """Publish an event soon, if anything is bound to the exchange; `by`: the user that caused it."""
        if not self._bound():
            return
        if len(self._waiting) >= WAITING_MAX:
            self._dropped += 1
            return
        self._schedule(0)
        self._waiting.append(self._message(key, headers, by))

    def publish_waiting(self) -> None:
        """Publish all waiting events now: there will be no further turns."""
        while self._waiting:
            self._route(self._waiting.popleft())
        self._report_dropped()

    def pid(self, connection: int, channel: int = 0) -> str:
        """Return the pid of a connection, or of a channel on it, as in listings: see `NodeIdentity.pid`."""
        return self._identity.pid(connection, channel)

    # Events of entities

    def queue_created(self, vhost: str, queue: Queue, by: str) -> None:
        """Publish queue.created."""
        headers = {"name": queue.name, "vhost": vhost, "durable": queue.durable, "auto_delete": queue.spec.auto_delete}
        more = {**self._kind(queue), "arguments": arguments(queue.spec.arguments)}
        self.publish("queue.created", {**headers, **more}, by)

    def _kind(self, queue: Queue) -> dict[str, object]:
        """Return the headers that depend on the queue's type."""
        if queue.type.name == "classic":
            number: int | None = getattr(queue.owner, "number", None)  # of the connection, if one owns it
            return {"owner_pid": "" if number is None else self.pid(number), "exclusive": queue.owner is not None}
        named = {"type": f"rabbit_{queue.type.name}_queue"}
        return {**named} if queue.type.name == "stream" else {**named, "exclusive": False}

    def queue_deleted(self, vhost: str, name: str, by: str) -> None:
        """Publish queue.deleted."""
        self.publish("queue.deleted", {"name": name, "vhost": vhost}, by)

    def exchange_created(self, vhost: str, exchange: Exchange, by: str) -> None:
        """Publish exchange.created."""
        headers = {"name": exchange.name, "vhost": vhost, "type": exchange.type, "policy": ""}
        flags = {
            "durable": exchange.durable,
            "auto_delete": exchange.auto_delete,
            "internal": exchange.internal,
        }
        self.publish("exchange.created", {**headers, **flags, "arguments": arguments(exchange.arguments)}, by)

    def exchange_deleted(self, vhost: str, name: str, by: str) -> None:
        """Publish exchange.deleted."""
        self.publish("exchange.deleted", {"name": name, "vhost": vhost}, by)

    def binding_created(self, vhost: str, binding: Binding, by: str) -> None:
        """Publish binding.created."""
        self.publish("binding.created", _binding(vhost, binding), by)

    def binding_deleted(self, vhost: str, binding: Binding, by: str) -> None:
        """Publish binding.deleted, also for a binding deleted with its source or destination."""
        self.publish("binding.deleted", _binding(vhost, binding), by)

    def _alarm(self, resource: str, *, short: bool) -> None:
        """Publish alarm.set or alarm.cleared ahead of the waiting events, which a raised alarm holds up."""
        if self._bound():
            key = "alarm.set" if short else "alarm.cleared"
            self._schedule(0)
            self._urgent.append(self._message(key, {"source": resource, "node": self.node}, None))

    # Publishing

    def _bound(self) -> bool:
        routing = self._routing()
        exchange = None if routing is None else routing.exchanges.get(NAME)
        return exchange is not None and bool(exchange.bindings or exchange.alternate)

    def _message(self, key: str, headers: Mapping[str, object], by: str | None) -> Message:
        now = self._now()
        actor = {} if by is None else {"user_who_performed_action": by}
        table = _table({**headers, **actor, "timestamp_in_ms": now})
        header = encode_header(0, BasicProperties(headers=table, delivery_mode=2, timestamp=now // 1000))
        return Message(route_of(NAME, key), header, b"", PERSISTENT)

    def _schedule(self, milliseconds: int) -> None:
        if not (self._waiting or self._urgent):
            self._timers.at(self._now() + milliseconds, self._publish)

    def _publish(self) -> None:
        while self._urgent:
            self._route(self._urgent.popleft())
        waits = self._alarms.raised or self._batches.full
        for _ in range(0 if waits else min(PORTION, len(self._waiting))):
            self._route(self._waiting.popleft())
        if self._waiting:
            self._timers.at(self._now() + (AGAIN_MILLISECONDS if waits else 1), self._publish)
        else:
            self._report_dropped()

    def _report_dropped(self) -> None:
        if self._dropped:
            log.warning("dropped %d events of %s: more than %d were waiting", self._dropped, NAME, WAITING_MAX)
            self._dropped = 0

    def _route(self, message: Message) -> None:
        routing = self._routing()
        exchange = None if routing is None else routing.exchanges.get(NAME)
        if routing is not None and exchange is not None:
            for queue in routing.route(exchange, (message.routing_key,), headers_of(message), message).queues:
                hand_over(message, queue)


def arguments(table: Table) -> list[str]:
    """Return arguments as the plugin shows them: Erlang terms such as {<<"x-max-length">>,signedint,5}."""
    terms = erlang_terms.value(Field("F", table))
    assert isinstance(terms, list)
    return [erlang_terms.printed(term) for term in terms]


def _binding(vhost: str, binding: Binding) -> dict[str, object]:
    return {
        "source_name": binding.source.name,
        "source_kind": "exchange",
        "destination_name": binding.destination.name,
        "destination_kind": "queue" if isinstance(binding.destination, Queue) else "exchange",
        "routing_key": binding.key,
        "arguments": arguments(decode_table(binding.arguments)[0]),
        "vhost": vhost,
    }


def _table(values: Mapping[str, object]) -> Table:
    return {name: _field(value) for name, value in values.items()}


def _field(value: object) -> Field:
    """Return a header as the plugin writes it: integers have 64 bits, values of unknown types are text."""
    if isinstance(value, bool):
        return Field("t", value)
    if isinstance(value, int):
        return Field("l", value)
    if isinstance(value, float):
        return Field("d", value)
    if isinstance(value, Mapping):
        return Field("F", _table(value))
    if isinstance(value, list | tuple):
        return Field("A", [_field(item) for item in value])
    return string("null" if value is None else str(value))
