"""Streams against a list: any order of publishes, commits, crashes, readers coming, acknowledging and going, and time.

The list knows every message that was published since the last crash undid some, where segments end, and from where on
messages are kept. Readers must get what the list holds: from where they began, in order, nothing twice, nothing that is
not on disk, and everything that their credit allows.
"""

from __future__ import annotations

import shutil
import tempfile
from copy import deepcopy
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from broker.entities.queues.ready_messages import MemoryWindow
from broker.wire.field_tables import Field
from harness.brokers.broker_core import Core, message
from harness.clients.stream_steps import Follower, stream
from storage.offline.verify_messages import verify

OVERHEAD = 64
"""Bytes that a message counts beside its body, by the documentation."""


class Published(NamedTuple):
    body: bytes
    time: int


class Part(NamedTuple):
    """A segment: where it begins and ends, what it counts, and when its last message came."""

    first: int
    end: int
    size: int
    time: int


class Log:
    """The messages that a stream must have. `parts` are its segments, the last one being written."""

    def __init__(self) -> None:
        self.messages: list[Published] = []
        self.parts: list[Part] = []

    def append(self, body: bytes, time: int, limits: Limits) -> None:
        offset, size = len(self.messages), len(body) + OVERHEAD
        if not self.parts or self.parts[-1].size >= limits.segment:
            self._drop(time, limits)
            self.parts.append(Part(offset, offset, 0, 0))
        last = self.parts[-1]
        self.parts[-1] = Part(last.first, offset + 1, last.size + size, time)
        self.messages.append(Published(body, time))

    def _drop(self, now: int, limits: Limits) -> None:
        """All that is there is closed now."""
        while self.parts and (
            sum(part.size for part in self.parts) > limits.size or self.parts[0].time < now - limits.age
        ):
            self.parts.pop(0)

    @property
    def first(self) -> int:
        return self.parts[0].first if self.parts else 0

    @property
    def end(self) -> int:
        return len(self.messages)

    def since(self, time: int) -> int:
        kept = range(self.first, self.end)
        return next((offset for offset in kept if self.messages[offset].time >= time), self.end)


class Limits(NamedTuple):
    """Limits of a stream: seconds of age, size of all, size of a segment."""

    age: int
    size: int
    segment: int


class Reading(NamedTuple):
    """A reader, and what it has been given: never less than what it should have come to."""

    follower: Follower
    begin: int
    got: list[int]


class StreamMachine(RuleBasedStateMachine):
    """A stream, its list, and readers."""

    @initialize(
        age=st.sampled_from((5, 60, 10**6)),
        size=st.sampled_from((0, 1500, 10**9)),
        segment=st.sampled_from((0, 500, 10**6)),
        window=st.sampled_from((1, 5, 1000)),
    )
    def begin(self, age: int, size: int, segment: int, window: int) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="leveret-streams-"))
        self.core = Core(self.directory / "messages", MemoryWindow(window, 1 << 20))
        self.limits = Limits(age * 1000, size, segment)
        stream(self.core, max_age=f"{age}s", max_length_bytes=size, stream_max_segment_size_bytes=segment)
        self.log, self.on_disk = Log(), Log()
        self.readers: list[Reading] = []
        self.serial = 0

    # Publishing

    @rule(count=st.integers(1, 30), size=st.sampled_from((0, 10, 300)), persistent=st.booleans())
    def publish(self, count: int, size: int, persistent: bool) -> None:
        log = stream(self.core)
        for _ in range(count):
            self.serial += 1
            body = b"%d." % self.serial + b"x" * size
            log.publish(message(body, key="s", persistent=persistent))
            self.log.append(body, self.core.clock.now(), self.limits)
        self.core.end_turn()

    @rule()
    def commit(self) -> None:
        self.core.commit()
        self.on_disk = deepcopy(self.log)

    @rule(seconds=st.integers(1, 30))
    def wait(self, seconds: int) -> None:
        self.core.advance(seconds * 1000)

    @rule(budget=st.integers(1, 5))
    def reclaim(self, budget: int) -> None:
        self.core.store.reclaim(budget)

    @rule(orderly=st.booleans())
    def restart(self, orderly: bool) -> None:
        if orderly:
            self.commit()
        self.core.crash()
        self.log = deepcopy(self.on_disk)
        self.readers.clear()

    # Reading

    @rule(where=st.sampled_from(("first", "last", "next", "offset", "time", "ago")), number=st.integers(0, 200))
    def follow(self, where: str, number: int) -> None:
        log, now = self.log, self.core.clock.now()
        offset: object = where
        if where == "offset":
            offset, begin = number, max(log.first, number)
        elif where == "time":
            offset, begin = Field("T", now // 1000 - number), log.since((now // 1000 - number) * 1000)
        elif where == "ago":
            offset, begin = f"{number + 1}s", log.since(now - (number + 1) * 1000)
        else:
            begin = {"first": log.first, "last": max(log.first, log.end - 1), "next": log.end}[where]
        follower = Follower().follow(stream(self.core), offset, prefetch=1 + number % 40)
        self.readers.append(Reading(follower, begin, []))
        self.core.end_turn()

    @precondition(lambda self: self.readers)
    @rule(index=st.integers(0, 10), everything=st.booleans())
    def acknowledge(self, index: int, everything: bool) -> None:
        follower = self.readers[index % len(self.readers)].follower
        if follower.held and not everything:
            entry = follower.held.pop(index % len(follower.held))
            entry.queue.settle((entry,))
            assert entry.consumer is not None
            entry.consumer.settled()
        else:
            follower.ack()
        self.core.end_turn()

    @precondition(lambda self: self.readers)
    @rule(index=st.integers(0, 10))
    def leave(self, index: int) -> None:
        reading = self.readers.pop(index % len(self.readers))
        assert reading.follower.consumer is not None
        stream(self.core).consumers.remove(reading.follower.consumer)
        reading.follower.requeue()
        self.core.end_turn()

    # What must hold

    @invariant()
    def the_stream_is_the_list(self) -> None:
        found = stream(self.core)
        assert (found.log.first, found.log.next) == (self.log.first, self.log.end)
        assert found.ready == self.log.end - self.log.first
        assert found.unacked == sum(len(reading.follower.held) for reading in self.readers)

    @invariant()
    def readers_read(self) -> None:
        for follower, begin, got in self.readers:
            for offset, body in follower.read:
                assert offset >= (got[-1] + 1 if got else begin)
                assert offset < self.on_disk.end
                assert body == self.log.messages[offset].body
                # What was passed over had gone.
                assert offset == (got[-1] + 1 if got else begin) or offset <= self.log.first
                got.append(offset)
            follower.read.clear()
            assert follower.consumer is not None
            come_to = got[-1] + 1 if got else begin
            full = len(follower.held) == follower.consumer.prefetch
            assert full or max(come_to, self.log.first) >= self.on_disk.end

    def teardown(self) -> None:
        if not hasattr(self, "core"):
            return
        try:
            self.core.commit()
            self.core.close()
            assert verify(self.directory / "messages").problems == []
        finally:
            shutil.rmtree(self.directory)


TestStream = pytest.mark.slow(StreamMachine.TestCase)
TestStream.settings = settings(
    max_examples=20, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
