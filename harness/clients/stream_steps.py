"""Reading streams in tests of the entities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from broker.entities.messages.message import QueuedMessage
from broker.entities.queues.consumer_prefetch import UNLIMITED, Consumer
from broker.entities.queues.streams.stream_queue import Stream
from broker.wire.field_tables import Field, from_python
from broker.wire.properties import decode_properties
from harness.brokers.broker_core import Core, Reader


def stream(core: Core, name: str = "s", **arguments: Any) -> Stream:
    """Declare a stream, or find the one that is there; `max_age="1h"` is the argument x-max-age."""
    found = core.vhost.queues.get(name) or core.queue(name, queue_type="stream", **arguments)
    assert isinstance(found, Stream)
    return found


class Follower(Reader):
    """A channel that remembers the offsets and bodies it was given by a stream."""

    def __init__(self, *, room: int = UNLIMITED) -> None:
        super().__init__(room=room)
        self.read: list[tuple[int, bytes]] = []
        self.consumer: Consumer | None = None

    def follow(self, stream: Stream, offset: Any = "first", *, prefetch: int = 1000, **arguments: Any) -> Follower:
        """Consume from an offset on; `offset` may be a Field, `stream_filter="a"` is the argument x-stream-filter."""
        table = from_python({"x-" + key.replace("_", "-"): value for key, value in arguments.items()})
        table["x-stream-offset"] = offset if isinstance(offset, Field) else from_python({"": offset})[""]
        self.consumer = Consumer(
            stream, self, "t", no_ack=False, exclusive=False, prefetch=prefetch, priority=0, arguments=table
        )
        stream.consumers.add(self.consumer)
        return self

    def deliver(self, consumer: Consumer, entries: Sequence[QueuedMessage]) -> None:
        for entry in entries:
            assert entry.message is not None, "delivered without its content"
            assert not entry.redelivered
            headers = decode_properties(entry.message.header).headers or {}
            assert headers["x-stream-offset"] == Field("l", entry.position)
            self.read.append((entry.position, entry.message.body))
        self.held.extend(entries)

    @property
    def offsets(self) -> list[int]:
        """The offsets it was given since last asked."""
        offsets = [offset for offset, _ in self.read]
        self.read.clear()
        return offsets
