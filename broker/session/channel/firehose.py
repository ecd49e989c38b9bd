"""The firehose: copies of all published and delivered messages of a virtual host go to exchange amq.rabbitmq.trace.

It is on if `traced` of the virtual host is: channels ask for it once for each batch of deliveries.
Publishes ask only when a route is resolved, because switching it makes all cached routes stale and no route is
cached while it is on. Routing keys and headers are those of RabbitMQ 3.10. It is off again after a restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from broker.entities.exchanges.routing import hand_over
from broker.entities.messages.message import SHORT_STRING_BYTES, Message, QueuedMessage, keys_of, route_of
from broker.entities.queues.queue import Queue
from broker.entities.vhosts.vhost import TRACE_EXCHANGE, VHost
from broker.wire.field_tables import Field, Table, string
from broker.wire.properties import REPLY_TO, BasicProperties, decode_properties, encode_header


class TracedChannel(NamedTuple):
    """The channel of a traced message. `node` is the cluster's name, `connection` the peer's."""

    vhost: VHost
    connection: str
    channel: int
    user: str
    node: str


def start(vhost: VHost) -> None:
    """Begin to trace a virtual host."""
    vhost.traced = True
    vhost.bindings.changed_everywhere()


def stop(vhost: VHost) -> None:
    """Stop tracing."""
    vhost.traced = False
    vhost.bindings.changed_everywhere()


def published(origin: TracedChannel, message: Message, keys: Sequence[str], queues: Iterable[Queue]) -> None:
    """Trace a published message. The header `routed_queues` of the default exchange has the keys, existing or not."""
    known = origin.vhost.queues
    # A delaying exchange's hidden queue is not among those that a client knows of.
    names = sorted(queue.name for queue in queues if known.get(queue.name) is queue)
    if not message.exchange:
        names = sorted({key for key in keys if not key.startswith(REPLY_TO + ".")})
    headers = {**_message(origin, message, keys), **_place(origin), "routed_queues": _strings(names)}
    _tell(origin.vhost, f"publish.{message.exchange}", headers, message.body)


def delivered(origin: TracedChannel, entries: Iterable[QueuedMessage]) -> None:
    """Messages go out to a consumer or getter. The firehose's own messages are not traced again."""
    for entry in entries:
        message = entry.message
        if message is None or message.exchange == TRACE_EXCHANGE:
            continue
        redelivered = {"redelivered": Field("I", int(entry.redelivered))}
        headers = {**_message(origin, message, keys_of(message)), **redelivered, **_place(origin)}
        _tell(origin.vhost, f"deliver.{entry.queue.name}", headers, message.body)


def _tell(vhost: VHost, key: str, headers: Table, body: bytes) -> None:
    if len(key.encode("utf-8", "surrogateescape")) > SHORT_STRING_BYTES:
        return  # too long for a routing key
    header = encode_header(len(body), BasicProperties(headers=headers))
    trace = Message(route_of(TRACE_EXCHANGE, key), header, body, 0)
    for queue in vhost.route(vhost.exchanges[TRACE_EXCHANGE], (key,), headers, trace).queues:
        hand_over(trace, queue)


def _message(origin: TracedChannel, message: Message, keys: Sequence[str]) -> Table:
    return {
        "exchange_name": string(message.exchange),
        "routing_keys": _strings(keys),
        "properties": Field("F", _properties(decode_properties(message.header))),
        "node": string(origin.node),
    }


def _place(origin: TracedChannel) -> Table:
    return {
        "vhost": string(origin.vhost.name),
        "connection": string(origin.connection),
        "channel": Field("I", origin.channel),
        "user": string(origin.user),
    }


def _properties(properties: BasicProperties) -> Table:
    """Return the properties that are set, last first. All numbers are cut to 32 bits, timestamps too."""
    table: Table = {}
    for name, value in reversed(properties._asdict().items()):
        if isinstance(value, int):
            table[name] = Field("I", (value + (1 << 31)) % (1 << 32) - (1 << 31))
        elif value is not None:
            table[name] = Field("F", value) if isinstance(value, dict) else string(value)
    return table


def _strings(texts: Iterable[str]) -> Field:
    return Field("A", [string(text) for text in texts])
