"""Runs: what a busy client sends in a row, handled in one go.

Publishes and acknowledgements come many at a time. What is the same for all of a run - the queues that are
reached, the batch that is waited for, the consumer whose credit returns - is seen to once for the run, not once for
each. A run of publishes is a row of whole publishes on one channel whose messages are ordinary (nothing in their
properties has a say in where they go or how long they stay) and go to the same queues. Whatever is not ordinary ends
the run and goes the way of a single publish. Within a run, publishes that differ in nothing but their bodies are
recognized by comparing bytes, without being taken apart.
"""

from __future__ import annotations

import struct
from time import monotonic
from typing import TYPE_CHECKING

from broker.entities.messages.message import Entry, Message
from broker.session.channel.deliveries import acknowledge
from broker.session.methods import publish
from broker.wire import methods
from broker.wire.amqp_errors import ChannelException, ConnectionException
from broker.wire.constants import FRAME_BODY, FRAME_END, FRAME_HEADER, FRAME_METHOD
from storage.batch import PERSISTENT

if TYPE_CHECKING:
    from broker.entities.queues.queue import Queue
    from broker.session.channel.channel import Channel
    from broker.session.channel.permissions import Target

_PUBLISH = methods.BasicPublish.KEY
_ACK = methods.BasicAck.KEY
_METHOD = struct.Struct(">BHII").unpack_from
"""Type, channel, payload size, class and method."""
_HEADER = struct.Struct(">BHIIQ").unpack_from
"""Type, channel, payload size, class and weight, size of the body."""
_BODY = struct.Struct(">BHI").unpack_from
_BASIC = 60 << 16
"""The basic class, and a weight of 0."""
_CONTENT_BYTES_MIN = 30
"""A header frame and the start of a body frame behind it have so many bytes at least; as has a whole publish."""

_ACK_START = struct.Struct(">BHII").pack
_ACK_BYTES = 13
_ACK_FRAME = struct.Struct(">11sQ2s")
"""What all acknowledgements of a channel begin with; delivery tag; the multiple bit and the frame-end octet."""
_SINGLE = bytes((0, FRAME_END))


def handle_batch(channel: Channel, data: bytes, at: int, copies_max: int, until: float) -> int:
    """Handle the publishes and acknowledgements that lie whole in `data` from `at` on; where they end.

    No more are begun once so many copies are made, nor, of those that go one by one, after the moment `until`. That is
    `at` when it begins with none of them: a publish whose body is empty or comes in several frames goes another way.
    Publishes wait in `gathered`, acknowledged messages in `settled`, until something needs them to be handled before
    it.
    """
    connection, targets = channel.connection, channel.access.targets
    number, frame_max = channel.number, connection.frame_max
    gathered: list[Message] = []
    settled: list[Entry] = []
    into: tuple[Queue, ...] = ()
    copies, flags = 0, 0
    try:
        while copies < copies_max:
            cuts = _cut(data, at, number, frame_max)
            if cuts is None:
                tags, after = _cut_acks(data, at, number)
                if after == at or channel.transaction is not None:
                    break
                connection.handling, at = _ACK, after
                channel.deliveries.take_each(tags, settled)
                continue
            connection.handling, connection.publishes, connection.confirmed = _PUBLISH, True, channel.confirmed
            stop, header_stop, body_stop = cuts
            arguments, header = data[at + 11 : stop], data[stop + 8 : header_stop]
            start, at, body_at = at, body_stop + 1, header_stop + 8
            target = targets.get(arguments)
            queues = () if target is None else _queues_for_run(channel, target, header, body_stop - body_at)
            if target is None or target.summary is None or not queues:
                _enqueue(channel, gathered, into)
                gathered = []
                copies += publish.publish(channel, arguments, header, data[body_at:body_stop])
                if monotonic() > until:
                    copies = max(copies, copies_max)
                continue
            route, summary = target.route, target.summary
            if queues != into or summary.persistent != (flags == PERSISTENT):
                _enqueue(channel, gathered, into)
                gathered, into, flags = [], queues, PERSISTENT if summary.persistent else 0
            bodies = [data[body_at:body_stop]]
            if data.startswith(data[start:body_at], at):
                at = _cut_bodies(data, start, body_at, at, bodies, 1 + (copies_max - copies) // len(queues))
            copies += len(bodies) * len(queues)
            for body in bodies:
                message = Message(route, header, body, flags)
                if summary.priority:
                    message.priority = summary.priority
                gathered.append(message)
        _end(channel, gathered, into, settled)
    except ChannelException as error:
        _end(channel, gathered, into, settled)
        channel.fail(error, connection.handling)
    except ConnectionException as error:
        _end(channel, gathered, into, settled)
        connection.fail(error, connection.handling)
    connection.copies = copies
    return at


def _end(channel: Channel, messages: list[Message], queues: tuple[Queue, ...], settled: list[Entry]) -> None:
    """Handle what is left of a run."""
    _enqueue(channel, messages, queues)
    if settled:
        acknowledge(settled)
        if channel.prefetch_all:
            channel.replenish()


def _cut(data: bytes, at: int, channel: int, frame_max: int) -> tuple[int, int, int] | None:
    """Where the three frames of a whole publish end, each at its frame-end octet; None if there is none at `at`."""
    end = len(data)
    if end - at < _CONTENT_BYTES_MIN:
        return None
    kind, number, method_size, key = _METHOD(data, at)
    stop = at + 7 + method_size
    if key != _PUBLISH or number != channel or kind != FRAME_METHOD or end - stop < _CONTENT_BYTES_MIN:
        return None
    kind, number, header_size, start, body_size = _HEADER(data, stop + 1)
    header_stop = stop + 8 + header_size
    body_stop = header_stop + 8 + body_size
    if kind != FRAME_HEADER or number != channel or start != _BASIC or header_size < 14 or body_stop >= end:
        return None
    kind, number, size = _BODY(data, header_stop + 1)
    if kind != FRAME_BODY or number != channel or size != body_size or not size:
        return None
    if not data[stop] == data[header_stop] == data[body_stop] == FRAME_END:
        return None
    if method_size > frame_max or header_size > frame_max or body_size > frame_max:
        return None
    return stop, header_stop, body_stop


def _queues_for_run(channel: Channel, target: Target, header: bytes, body_size: int) -> tuple[Queue, ...]:
    """The queues a message reaches if nothing about it has to be looked at more closely; otherwise none.

    Raises ConnectionException when the header is broken.
    """
    summary, exchange, connection = target.summary, target.exchange, channel.connection
    if summary is None or header != target.header:
        summary = publish.summarize_for(target, header)
    if (
        not summary.ordinary
        or exchange is None
        or exchange.version != target.version
        or channel.access.cache_epoch.number != target.cache_epoch
        or channel.transaction is not None
        or connection.broker.alarms.raised
        or body_size > connection.settings.message_bytes_max
    ):
        return ()
    queues = target.queues
    if queues is None:
        queues = () if target.routed else publish.by_name(channel, target)
    for queue in queues:
        if queue.limits.on_length:
            return ()
    return queues


def _cut_bodies(data: bytes, at: int, body_at: int, after: int, bodies: list[bytes], bodies_max: int) -> int:
    """Add the bodies of the publishes that begin as the one from `at` to `after` does; where they end."""
    common = data[at:body_at]
    skip, stride = body_at - at, after - at
    last = len(data) - stride
    while after <= last and len(bodies) < bodies_max and data.startswith(common, after):
        stop = after + stride - 1
        if data[stop] != FRAME_END:
            break
        bodies.append(data[after + skip : stop])
        after = stop + 1
    return after


def _enqueue(channel: Channel, messages: list[Message], queues: tuple[Queue, ...]) -> None:
    if not messages:
        return
    if channel.recorded is not None:
        channel.recorded.published(messages, returned=False)
    if len(queues) > 1:
        for message in messages:
            channel.vhost.share_body(message, queues)
    durable = False
    for queue in queues:
        if queue.publish(messages[0]) if len(messages) == 1 else queue.publish_all(messages):
            durable = True
    ledger = channel.confirms
    if ledger is not None and durable:
        channel.confirm_later(ledger, len(messages))
    elif ledger is not None:
        ledger.settle(len(messages))


def _cut_acks(data: bytes, at: int, channel: int) -> tuple[list[int], int]:
    """The delivery tags of the single acknowledgements on a channel that lie from `at` on, and where they end."""
    common = _ACK_START(FRAME_METHOD, channel, _ACK_BYTES, _ACK)
    tags: list[int] = []
    if not data.startswith(common, at):
        return tags, at
    whole = at + (len(data) - at) // _ACK_FRAME.size * _ACK_FRAME.size
    for start, tag, end in _ACK_FRAME.iter_unpack(memoryview(data)[at:whole]):
        if start != common or end != _SINGLE:
            break
        tags.append(tag)
    return tags, at + len(tags) * _ACK_FRAME.size
