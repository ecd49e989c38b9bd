"""Messages of a stream, read by a consumer that ends with the request; the stream keeps them."""

from __future__ import annotations

from typing import Any, NamedTuple

import trio

from broker.admin.json_tables import table
from broker.admin.messages.message_in_json import payload_in_json, properties_in_json
from broker.entities.queues.streams.stream_queue import Stream
from broker.management.api_call import ApiCall
from broker.management.responses import JsonArray, encoded
from broker.wire import methods
from broker.wire.assembler import Command
from broker.wire.properties import decode_properties

OFFSET = "x-stream-offset"
READ_SECONDS = 3.0
"""Longest read; on a slow disk it returns fewer messages than there are."""
READ_BYTES_MAX = 16 << 20
"""Bytes of bodies after which no further message is read."""


class StreamRead(NamedTuple):
    """A read: the offset as consumers specify it, the count of messages, and the bytes of each payload."""

    offset: int | str
    messages: int
    truncate: int
    as_base64: bool


class Reader:
    """Collects deliveries until there are enough, or the stream has no more."""

    def __init__(self, wanted: StreamRead, end: int) -> None:
        """`end` is the offset after the last message."""
        self.taken = JsonArray()
        self.done = trio.Event()
        self._wanted = wanted
        self._end = end
        self._bytes = 0

    def take(self, command: Command) -> None:
        """Add a delivery."""
        if self.done.is_set():
            return
        row = _row(command, self._wanted)
        self.taken.add(encoded(row))
        self._bytes += len(command.body)
        if self.taken.rows >= self._wanted.messages or row["offset"] >= self._end - 1 or self._bytes >= READ_BYTES_MAX:
            self.done.set()


async def read(call: ApiCall, stream: Stream, wanted: StreamRead) -> JsonArray:
    """Read messages of a stream. Raises Refused."""
    reader = Reader(wanted, stream.log.stored)
    async with call.session() as session:
        session.on_delivery = reader.take
        await call.answered(session.ask(methods.BasicQos(0, min(wanted.messages, 0xFFFF), False)))
        await call.answered(session.ask(_consume(stream.name, wanted)))
        if not _beyond(stream, wanted.offset):  # otherwise no delivery comes that could end the wait
            with trio.move_on_after(READ_SECONDS):
                await reader.done.wait()
    return reader.taken


def _beyond(stream: Stream, offset: int | str) -> bool:
    """Return True if the stream has no message from the offset on."""
    log = stream.log
    return log.stored <= log.first or (isinstance(offset, int) and offset >= log.stored)


def _consume(queue: str, wanted: StreamRead) -> methods.BasicConsume:
    return methods.BasicConsume(queue, "", False, False, False, False, table({OFFSET: wanted.offset}))


def _row(command: Command, wanted: StreamRead) -> dict[str, Any]:
    delivered, payload = command.method, command.body[: wanted.truncate]
    assert isinstance(delivered, methods.BasicDeliver), "a delivery"
    assert command.header_payload is not None, "a message has a header"
    properties = properties_in_json(decode_properties(command.header_payload))
    headers = properties["headers"] if isinstance(properties, dict) else {}
    return {
        "offset": headers.pop(OFFSET, 0),
        "payload_bytes": len(command.body),
        "redelivered": delivered.redelivered,
        "exchange": delivered.exchange,
        "routing_key": delivered.routing_key,
        "properties": properties,
        **payload_in_json(payload, as_base64=wanted.as_base64),
    }
