"""The firehose: whatever is published or delivered in a virtual host is told to its exchange amq.rabbitmq.trace.

While it is off nobody asks whether it is on. Starting it has every publisher's routes worked out anew, and from
then on for each message, by the one function that knows them; and it puts itself before `deliver` of every channel
there is and of those that are opened later. RabbitMQ 3.10 on the wire is the model for keys and headers. It ends
with the process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from broker.entities.exchanges.routing import hand_over
from broker.entities.messages.message import SHORT_STRING_BYTES, Entry, Message, keys_of, route_of
from broker.entities.queues.consumers import Consumer
from broker.entities.queues.queue import Queue
from broker.entities.vhosts.vhost import TRACE_EXCHANGE, VHost
from broker.session.channel.channel import Channel
from broker.session.registry import Registry
from broker.wire.field_tables import Field, Table, string
from broker.wire.properties import REPLY_TO, BasicProperties, decode_properties, encode_header


def start(registry: Registry, vhost: VHost) -> None:
    """Have everything in a virtual host told from now on."""
    vhost.traced = True
    vhost.bindings.changed_everywhere()
    for channel in _channels(registry, vhost):
        watch(channel)


def stop(registry: Registry, vhost: VHost) -> None:
    """Tell nothing any more."""
    vhost.traced = False
    vhost.bindings.changed_everywhere()
    for channel in _channels(registry, vhost):
        vars(channel).pop("deliver", None)


def watch(channel: Channel) -> None:
    """Have a channel's deliveries told, until `stop`."""
    channel.deliver = partial(_deliver, channel)  # type: ignore[method-assign]


def published(channel: Channel, message: Message, keys: Sequence[str], queues: Iterable[Queue]) -> None:
    """A client's message has been routed to these queues; the default exchange routes to whatever the keys name."""
    known = channel.vhost.queues
    # A delaying exchange's hidden queue is not among those that a client knows of.
    names = sorted(queue.name for queue in queues if known.get(queue.name) is queue)
    if not message.exchange:
        names = sorted({key for key in keys if not key.startswith(REPLY_TO + ".")})
    headers = {**_message(channel, message, keys), **_place(channel), "routed_queues": _strings(names)}
    _tell(channel.vhost, f"publish.{message.exchange}", headers, message.body)


def delivered(channel: Channel, entry: Entry) -> None:
    """A message goes out to a consumer or getter. What the firehose itself has told is not told again."""
    message = entry.message
    if message is None or message.exchange == TRACE_EXCHANGE:
        return
    redelivered = {"redelivered": Field("I", int(entry.redelivered))}
    headers = {**_message(channel, message, keys_of(message)), **redelivered, **_place(channel)}
    _tell(channel.vhost, f"deliver.{entry.queue.name}", headers, message.body)


def _deliver(channel: Channel, consumer: Consumer, entries: Sequence[Entry]) -> None:
    for entry in entries:
        delivered(channel, entry)
    type(channel).deliver(channel, consumer, entries)


def _channels(registry: Registry, vhost: VHost) -> Iterator[Channel]:
    for connection in registry.connections:
        if connection.vhost_name == vhost.name:
            yield from connection.channels.values()


def _tell(vhost: VHost, key: str, headers: Table, body: bytes) -> None:
    if len(key.encode("utf-8", "surrogateescape")) > SHORT_STRING_BYTES:
        return  # nothing can be published with it
    header = encode_header(len(body), BasicProperties(headers=headers))
    told = Message(route_of(TRACE_EXCHANGE, key), header, body, 0)
    for queue in vhost.route(vhost.exchanges[TRACE_EXCHANGE], (key,), headers, told).queues:
        hand_over(told, queue)


def _message(channel: Channel, message: Message, keys: Sequence[str]) -> Table:
    return {
        "exchange_name": string(message.exchange),
        "routing_keys": _strings(keys),
        "properties": Field("F", _properties(decode_properties(message.header))),
        "node": string(channel.connection.settings.cluster_name),
    }


def _place(channel: Channel) -> Table:
    return {
        "vhost": string(channel.vhost.name),
        "connection": string(str(channel.connection.peer)),
        "channel": Field("I", channel.number),
        "user": string(channel.connection.user),
    }


def _properties(properties: BasicProperties) -> Table:
    """Those that are set, the last first. All numbers have 32 bits, though a timestamp has more."""
    table: Table = {}
    for name, value in reversed(properties._asdict().items()):
        if isinstance(value, int):
            table[name] = Field("I", (value + (1 << 31)) % (1 << 32) - (1 << 31))
        elif value is not None:
            table[name] = Field("F", value) if isinstance(value, dict) else string(value)
    return table


def _strings(texts: Iterable[str]) -> Field:
    return Field("A", [string(text) for text in texts])
