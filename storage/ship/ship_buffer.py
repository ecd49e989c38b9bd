"""The records that wait to be shipped: added by the threads that commit, taken by the one that ships.

Nobody who adds waits. Beyond `limit` bytes all waiting records are dropped, and later ones too, until the shipping
thread begins a new base: that has whatever was dropped. Where confirms wait for the target as well, `safe` tells up to
which record they may be sent.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from threading import Condition
from typing import NamedTuple, final

from storage.batch import SealedBatch
from storage.definitions.definition_rows import Change
from storage.journal.journal_payload import encode_batch
from storage.ship.change_record import encode_changes
from storage.ship.shipped_records import HEAD_BYTES, RecordKind, ShippedRecord


class ShipLag(NamedTuple):
    """Changes on this disk that cannot be restored from the target: all since that many seconds."""

    seconds: float
    messages: int
    bytes: int


class _Waiting(NamedTuple):
    """A record to be encoded, or encoded already by the journal."""

    kind: RecordKind
    position: int
    time: int
    number: int
    messages: int
    size: int
    data: bytes | SealedBatch
    since: float

    def record(self) -> ShippedRecord:
        data = self.data if isinstance(self.data, bytes) else encode_batch(self.data)
        return ShippedRecord(self.kind, self.position, self.time, self.number, self.messages, data)


@final
class ShipBuffer:
    """Waiting records of one boot, and how far the target is behind. Any thread may call it."""

    def __init__(self, limit: int, on_drop: Callable[[], None], on_safe: Callable[[], None] | None = None) -> None:
        """`on_drop` is called when records begin to be dropped, by the thread that adds one: it may not wait.

        `on_safe` is called by the shipping thread when `safe` has grown; with None no confirm waits for that.
        """
        self._limit = limit
        self._on_drop = on_drop
        self._on_safe = on_safe
        self._changed = Condition()
        self._waiting: deque[_Waiting] = deque()
        self._bytes = self._messages = 0
        """Bytes and messages of the waiting records."""
        self._wanted = 0
        """Bytes at which the thread that waits is woken."""
        self._position = 0
        """Position of the last record."""
        self._urgent = 0
        """Position of the last record that a confirm waits for."""
        self.safe = -1
        """All records up to this position can be restored from the target; -1: there is no base yet."""
        self._time = 0
        self.closed = False
        self.dropping = False
        """Records are dropped, until `restart`."""
        self._unsafe_since: float | None = time.monotonic()
        """Time of the oldest record without a whole base behind it; None if there is none."""
        self._in_hand: tuple[float, int, int] | None = None
        """Records taken and not shipped yet: time of the oldest, messages, bytes."""
        self._unsafe = [0, 0]
        """Messages and bytes that are not to be restored for lack of a base."""

    # By the threads that commit

    def batch(self, batch: SealedBatch, number: int, payload: bytes) -> None:
        """Add a batch, which is on disk. `payload`: what the journal has of it; empty if it went to LMDB at once."""
        messages = sum([len(lane.puts) for lane in batch.lanes])
        size = len(payload) if payload else batch.bytes
        urgent = self._on_safe is not None and bool(batch.waiters)
        self._add(RecordKind.BATCH, number, messages, size, payload or batch, urgent=urgent)

    def definitions(self, changes: Sequence[Change], number: int) -> None:
        """Add a transaction of definitions, which is on disk."""
        data = encode_changes(changes)
        self._add(RecordKind.DEFINITIONS, number, 0, len(data), data)

    def _add(
        self,
        kind: RecordKind,
        number: int,
        messages: int,
        size: int,
        data: bytes | SealedBatch,
        *,
        urgent: bool = False,
    ) -> None:
        size += HEAD_BYTES
        with self._changed:
            self._position += 1
            self._time = max(self._time, time.time_ns() // 1_000_000)
            if self._bytes + size > self._limit and not self.dropping:
                self._drop()
            if self._unsafe_since is not None:
                self._unsafe[0] += messages
                self._unsafe[1] += size
            if self.dropping:
                return
            since = time.monotonic()
            self._waiting.append(_Waiting(kind, self._position, self._time, number, messages, size, data, since))
            self._messages += messages
            was, self._bytes = self._bytes, self._bytes + size
            if urgent:
                self._urgent = self._position
            if urgent or not was or was < self._wanted <= self._bytes:
                self._changed.notify_all()

    def _drop(self) -> None:
        """Drop what waits: from the oldest record on, nothing can be restored before the next base."""
        if self._unsafe_since is None:
            lag = self._lag(time.monotonic())
            self._unsafe_since, self._unsafe = time.monotonic() - lag.seconds, [lag.messages, lag.bytes]
        self._waiting.clear()
        self._bytes, self._messages, self.dropping = 0, 0, True
        self._changed.notify_all()
        self._on_drop()

    # By the thread that ships

    def wait(self, seconds: float | None, wanted: int = 0, urgent_from: float = 0.0) -> None:
        """Return when there is a record, after at most `seconds` more; at once if records are dropped or it is closed.

        With `wanted`, as soon as there are that many bytes, or from the monotonic time `urgent_from` on a record that a
        confirm waits for.
        """
        with self._changed:
            self._wanted = max(wanted, 1)
            self._changed.wait_for(lambda: self.urgent or self._enough(), seconds)
            if self.urgent and (early := urgent_from - time.monotonic()) > 0:
                self._changed.wait_for(self._enough, early)
            self._wanted = 0

    def _enough(self) -> bool:
        return self._bytes >= self._wanted or self.dropping or self.closed

    @property
    def urgent(self) -> bool:
        """True while a record waits that a confirm waits for."""
        with self._changed:
            return bool(self._waiting) and self._waiting[0].position <= self._urgent

    def take(self, size_max: int) -> list[ShippedRecord]:
        """Take the oldest records, up to about `size_max` bytes; at least one, if there is any."""
        taken, size = list[_Waiting](), 0
        with self._changed:
            while self._waiting and (not taken or size + self._waiting[0].size <= size_max):
                taken.append(self._waiting.popleft())
                size += taken[-1].size
            self._bytes -= size
            if taken:
                messages = sum([each.messages for each in taken])
                self._messages -= messages
                self._in_hand = taken[0].since, messages, size
        return [each.record() for each in taken]  # large batches are encoded here, in the shipping thread

    def shipped(self, position: int) -> None:
        """Note that the records taken last are at the target, and all before, up to this position."""
        with self._changed:
            self._in_hand = None
            if self._unsafe_since is None:
                self.safe = position
        self._tell_safe()

    def _tell_safe(self) -> None:
        if self._on_safe is not None:
            self._on_safe()

    def restart(self) -> None:
        """Keep records again: the next base will have all that were dropped."""
        with self._changed:
            self.dropping = False

    def based(self, position: int) -> None:
        """Note that a whole base is at the target, and all records up to this position are there or in the base."""
        with self._changed:
            if not self.dropping:
                self._unsafe_since = None
                self._unsafe = [0, 0]
                self.safe = position
        self._tell_safe()

    def close(self) -> None:
        """Wake the shipping thread for good."""
        with self._changed:
            self.closed = True
            self._changed.notify_all()

    def give_up(self) -> None:
        """Drop all records from now on."""
        with self._changed:
            if not self.dropping:
                self._drop()

    def holds(self, position: int) -> bool:
        """Return whether a record up to this position waits."""
        with self._changed:
            return bool(self._waiting) and self._waiting[0].position <= position

    @property
    def confirming(self) -> bool:
        """True if confirms wait for the target."""
        return self._on_safe is not None

    @property
    def waiting_bytes(self) -> int:
        """Bytes of the records that wait."""
        return self._bytes

    @property
    def position(self) -> int:
        """Position of the last record that was added."""
        return self._position

    # By anyone

    def lag(self) -> ShipLag:
        """Return how far the target is behind at this moment."""
        with self._changed:
            now = time.monotonic()
            if self._unsafe_since is not None:
                return ShipLag(now - self._unsafe_since, *self._unsafe)
            return self._lag(now)

    def _lag(self, now: float) -> ShipLag:
        since, messages, size = self._in_hand or (now, 0, 0)
        if self._waiting:
            since = min(since, self._waiting[0].since)
        return ShipLag(now - since, messages + self._messages, size + self._bytes)
