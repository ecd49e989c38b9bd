"""The queues' side of the message store: gathers batches as queues do, and hands them over."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from storage.batch import (
    COUNTER_BITS,
    DELAYED,
    PERSISTENT,
    LaneState,
    LaneWrites,
    MessageRecord,
    Purge,
    SealedBatch,
    WriteBatch,
)
from storage.journal.journal_payload import FLAG_BITS, JournaledMessage
from storage.messages.message_store import MessageStore

ROUTE = b"\x02ex\x03key"
HEADER = b"\x00\x3c\x00\x00" + bytes(8) + b"\x10\x00\x02"
END = 1 << 64


def record(body: bytes, *, persistent: bool = True, body_id: int = 0) -> MessageRecord:
    """A message as a queue holds it."""
    return MessageRecord(ROUTE, HEADER, body, PERSISTENT if persistent else 0, body_id)


class Writer:
    """Puts and settles messages of any queue, and commits when told to."""

    def __init__(self, store: MessageStore) -> None:
        self.store = store
        self.batch = WriteBatch(1)
        self._counter = store.boot << COUNTER_BITS
        self._states: dict[tuple[int, int], LaneState] = defaultdict(LaneState)
        self._sizes: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
        for queue_id, lanes in store.lanes().items():
            for lane, state in lanes.items():
                self._states[(queue_id, lane)] = state
                for message in store.read(queue_id, lane, -1, END, 1 << 30, 1 << 40):
                    if message.flags & PERSISTENT:
                        self._sizes[(queue_id, lane)][message.position] = len(message.body)

    def next_position(self) -> int:
        """A position above all before."""
        self._counter += 1
        return self._counter

    def put(
        self,
        queue_id: int,
        body: bytes,
        *,
        lane: int = 0,
        persistent: bool = True,
        body_id: int = 0,
        expires_at: int = 0,
        position: int | None = None,
    ) -> int:
        """Put a message into the open batch; its position."""
        position = self.next_position() if position is None else position
        writes = self._lane(queue_id, lane)
        writes.puts[position] = (record(body, persistent=persistent, body_id=body_id), expires_at)
        if persistent:
            self._sizes[(queue_id, lane)][position] = len(body)
            writes.state.messages += 1
            writes.state.bytes += len(body)
        return position

    def delay(self, queue_id: int, body: bytes, due: int, *, persistent: bool = True, expires_at: int = 0) -> int:
        """Put a message that waits until `due`; its position."""
        position = self.put(queue_id, body, persistent=persistent, expires_at=due)
        puts = self._lane(queue_id, 0).puts
        flags = puts[position][0].flags | DELAYED | expires_at << FLAG_BITS
        puts[position] = JournaledMessage(flags, ROUTE, HEADER, body, 0), due
        return position

    def puts(self, queue_id: int, bodies: Iterable[bytes]) -> list[int]:
        """Put several messages."""
        return [self.put(queue_id, body) for body in bodies]

    def settle(self, queue_id: int, *positions: int, lane: int = 0) -> None:
        """Be finished with messages, written or not."""
        writes = self._lane(queue_id, lane)
        for position in positions:
            if writes.puts.pop(position, None) is None:
                writes.settled.append(position)
            self._uncount(queue_id, lane, position)

    def move(self, queue_id: int, position: int, *, lane: int = 0) -> None:
        """Be finished with a message, written or not, because of something that was put with this batch."""
        writes, size = self._lane(queue_id, lane), self._sizes[(queue_id, lane)].get(position, -1)
        if writes.puts.pop(position, None) is None:
            writes.moved[position] = size
        self._uncount(queue_id, lane, position)

    def purge(self, queue_id: int, survivors: Iterable[int] = (), *, lane: int = 0) -> None:
        """Drop everything but the survivors."""
        kept, floor = sorted(survivors), self.next_position()
        writes = self._lane(queue_id, lane)
        writes.puts = {position: put for position, put in writes.puts.items() if position in kept}
        for position in [position for position in self._sizes[(queue_id, lane)] if position not in kept]:
            self._uncount(queue_id, lane, position)
        self.batch.purges.append(Purge(queue_id, lane, floor, tuple(kept)))

    def delete(self, queue_id: int) -> None:
        """Delete a queue."""
        for lane in [lane for queue, lane in self._states if queue == queue_id]:
            self._lane(queue_id, lane).puts.clear()
            self._lane(queue_id, lane).settled.clear()
            self._lane(queue_id, lane).moved.clear()
            for position in list(self._sizes[(queue_id, lane)]):
                self._uncount(queue_id, lane, position)
        self.batch.deleted_queues.append(queue_id)

    def delivered(self, queue_id: int, position: int, *, lane: int = 0) -> None:
        """A consumer has seen a message."""
        self._lane(queue_id, lane).state.delivered_up_to = position

    def count(self, queue_id: int, position: int, deliveries: int, *, lane: int = 0) -> None:
        """A message has been handed out so often."""
        self._lane(queue_id, lane).deliveries[position] = deliveries

    def seal(self) -> SealedBatch:
        """Close the open batch."""
        sealed = self.batch.seal()
        self.batch = WriteBatch(self.batch.number + 1)
        return sealed

    def flush(self) -> None:
        """Commit what was gathered."""
        self.store.commit(self.seal())

    def _lane(self, queue_id: int, lane: int) -> LaneWrites:
        return self.batch.lane(queue_id, lane, self._states[(queue_id, lane)])

    def _uncount(self, queue_id: int, lane: int, position: int) -> None:
        size = self._sizes[(queue_id, lane)].pop(position, None)
        if size is not None:
            self._states[(queue_id, lane)].messages -= 1
            self._states[(queue_id, lane)].bytes -= size


def bodies(store: MessageStore, queue_id: int, lane: int = 0) -> list[bytes]:
    """The bodies of a lane's live messages, in order, read in small portions as a queue does."""
    found, after = [], 0
    while messages := store.read(queue_id, lane, after, END, 7, 1 << 20):
        found += [message.body for message in messages]
        after = messages[-1].position
    return found


def contents(path: Path) -> dict[str, bytes]:
    """Every file below a directory."""
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def clear_away(store: MessageStore, budget_records: int = 256) -> int:
    """Reclaim until nothing is left; the number of steps."""
    steps = 1
    while store.reclaim(budget_records):
        steps += 1
    return steps
