"""Target `store`: records of the message store have other bytes than were written, and nobody knows which.

In any case the store opens, or says why not; what it gives back is what was put in; writing and clearing away go on;
and `leveret check` has something to say, not to raise.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from storage.batch import PERSISTENT, ClosedStreamSegment
from storage.journal.journal import HIGH_WATER
from storage.messages import lmdb_environment
from storage.messages.message_store import MessageStore
from storage.offline.verify_messages import verify
from storage.storage_errors import StoreCorrupt, StoreIncompatible
from tests.security.fuzz.broker_under_test import scratch_directory
from tests.security.fuzz.choices import Choices, once_in, pick
from tests.unit.storage.writing import END, Writer, clear_away, record

PLAIN, SHARED, LANES, STREAM, SWEPT, GONE, DELAYING, NEW = range(1, 9)
Put = tuple[int, int, int]
"""Queue, lane and position."""


class Pristine:
    """A store with every kind of record in it, and what it was given: the bodies by place, those settled included."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "pristine"
        self.bodies: dict[Put, bytes] = {}
        with MessageStore.open(self.path) as store:
            self._fill(Writer(store))
        with lmdb_environment.open_environment(self.path) as environment, environment.begin() as txn:
            self.records = [(bytes(key), len(value)) for key, value in txn.cursor()]

    def _fill(self, writer: Writer) -> None:
        places = [self._put(writer, PLAIN, b"plain %d" % number) for number in range(12)]
        for lane in (0, 3, 9):
            self._put(writer, LANES, b"lane %d" % lane, lane=lane)
        for queue in (SHARED, LANES):
            self._put(writer, queue, b"shared" * 40, body_id=7)
            self._put(writer, queue, b"transient", persistent=False)
        for number in range(6):
            self._put(writer, STREAM, b"stream %d" % number, position=number, expires_at=1000 + number)
        swept = [self._put(writer, SWEPT, b"swept %d" % number) for number in range(6)]
        self._put(writer, GONE, b"gone")
        self.bodies[DELAYING, 0, writer.delay(DELAYING, b"delayed", 5000)] = b"delayed"
        writer.batch.closed_segments.append(ClosedStreamSegment(STREAM, 0, 0, 3, 24, 1002))
        writer.flush()
        writer.settle(PLAIN, places[0], places[5])
        writer.count(PLAIN, places[2], 3)
        writer.delivered(PLAIN, places[3])
        writer.purge(SWEPT, [swept[4]])
        writer.delete(GONE)
        writer.flush()

    def _put(self, writer: Writer, queue: int, body: bytes, *, lane: int = 0, **how: int) -> int:
        position = writer.put(queue, body, lane=lane, **how)
        self.bodies[queue, lane, position] = body
        return position


class Damaged:
    """A copy of the pristine store with some records changed."""

    def __init__(self, pristine: Pristine, path: Path, choices: Choices) -> None:
        self.path = path
        self._bodies = dict(pristine.bodies)
        self._lanes = sorted({(queue, lane) for queue, lane, _position in pristine.bodies})
        self._new = b""
        path.mkdir(exist_ok=True)  # what else an earlier input has left there, ballast and a lock, is welcome
        (path / HIGH_WATER).unlink(missing_ok=True)  # of a later boot than the file
        shutil.copyfile(pristine.path / "data.mdb", path / "data.mdb")
        with lmdb_environment.open_environment(path) as environment, environment.begin(write=True) as txn:
            for _ in range(choices.number(1, 3)):
                key, _size = pick(choices, pristine.records)
                value = txn.get(key)
                if value is not None:
                    txn.put(key, _bent(choices, bytes(value)))

    def live_through(self) -> None:
        """A boot that reads everything, one that writes and clears away, and one more; each checked from outside."""
        for boot in (self._read, self._write, self._read):
            try:
                store = MessageStore.open(self.path, accept_loss=True)  # the mark of the journal may be bent
            except (StoreCorrupt, StoreIncompatible):
                return  # the identity; nobody can say whose store it is
            with store:
                boot(store)
            verify(self.path)

    def _read(self, store: MessageStore) -> None:
        states = store.lanes()
        for queue, lane in self._lanes:
            found = store.read(queue, lane, -1, END, 1 << 20, 1 << 30)
            found += store.fetch(
                queue, lane, sorted(at for q, other, at in self._bodies if (q, other) == (queue, lane))
            )
            for message in found:
                place = (queue, lane, message.position)
                expected = record(self._bodies.get(place, b"never put"))
                assert message.body == expected.body, f"{place} gave {message.body!r}"
                assert (message.route, message.header) == (expected.route, expected.header)
            store.waiting(queue, lane, -1, END, 10)
            state = states.get(queue, {}).get(lane)
            persistent = {message.position for message in found if message.flags & PERSISTENT}
            # A queue asks for as many as were counted: what is not counted would never be seen.
            assert state is None or state.messages >= len(persistent), f"{state.messages} of {len(persistent)} counted"
        store.streams.history(STREAM, 0)
        for time in (0, 1002, 9999):
            assert 0 <= store.streams.find(STREAM, 0, time, 0, 6) <= 6
        store.highest_queue_id()
        store.pending_deletions()

    def _write(self, store: MessageStore) -> None:
        writer = Writer(store)
        position = writer.put(NEW, b"new")
        self._bodies[NEW, 0, position] = b"new"
        self._lanes.append((NEW, 0))
        writer.flush()
        for queue, lane, at in sorted(self._bodies):
            if queue in (PLAIN, SHARED) and at % 2:
                writer.settle(queue, at, lane=lane)
        writer.purge(STREAM)
        writer.delete(LANES)
        writer.flush()
        clear_away(store)


def _bent(choices: Choices, value: bytes) -> bytes:
    """A record with a bit, a byte or more changed, cut short, longer, or of zeros from somewhere on."""
    how, at = choices.number(0, 7), choices.number(0, max(0, len(value) - 1))
    if once_in(choices, 4):
        at %= 8  # where versions, kinds, counts and checksums are
    if how < 4 and value:
        return value[:at] + bytes((value[at] ^ 1 << choices.number(0, 7),)) + value[at + 1 :]
    if how == 4:
        return value[:at]
    if how == 5:
        return value[:at] + bytes(len(value) - at)
    if how == 6:
        return value + choices.data(40)
    return value[:at] + choices.data(30) + value[at + 30 :]


@contextmanager
def opened() -> Iterator[Callable[[Choices], None]]:
    """The target, ready for inputs."""
    with scratch_directory() as directory:
        pristine = Pristine(directory)
        yield lambda choices: Damaged(pristine, directory / "messages", choices).live_through()
