"""The policy of commits: all decisions about who writes a batch of messages and when, and their numbers.

| question | answer | asked by |
|---|---|---|
| Is the open batch written now? | `wait`: now, after the one on its way, or once others have added to it | event loop |
| Who writes it? | `loop_writes`: the event loop, or the commit thread | event loop |
| Where to? | `journal_takes`: the journal, or LMDB at once | commit thread |
| When is LMDB given what only the journal has? | `parcel_due`, `seconds_to_catch_up` | event loop, commit thread |
| Who may publish meanwhile? | `confirmed_publisher_waits`, `unconfirmed_publisher_waits` | event loop |

Nothing here waits, knows a thread or a file, or looks at a clock: sizes, waiters, times and the journal's figures are
given. The reasons are in docs/decisions 4, 32 and 41. A batch without waiters is cut and begun by settings
(`store.lazy_bytes_max` in `pending_batches`, `store.lazy_flush_milliseconds` in `engine`); background work gives way to
commits by numbers of its own (`pending_batches`). `quick_disk` counts how quick writes were, also those of definitions.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from broker.server.commits.quick_disk import QUICK_WRITES_MIN, QuickDisk
from storage.batch import SealedBatch, Waiter
from storage.journal.journal import JournalFigures
from storage.journal.journal_file import JournalWrite

GATHER_SECONDS = 0.002
"""Longest time that a batch of several clients waits for others that have sent something already."""

AT_ONCE_BYTES_MAX = 16 << 10
"""A lone client's batch is written by the event loop up to this size."""
PUTS_AT_ONCE_BYTES_MAX = 320 << 10
"""The same for a batch without settlements: then no consumer has work meanwhile."""
RARE_SECONDS = 0.005
"""A batch is rare if the last one with a waiter came longer ago: writing it costs others little."""
RARE_BYTES_MAX = 128 << 10
"""A rare batch is written by a busy event loop up to this size."""
SLOW_SECONDS = 0.001
"""After a write of the event loop that took longer, rare batches are the thread's for a while."""
SLOW_FACTOR = 20
"""The factor by which that is longer: at most a twentieth of the event loop's time goes to a slow disk."""
HANGS_SECONDS = 0.1
"""LMDB takes some 5 ms to catch up. While it takes longer than this, all batches are the thread's."""

BATCH_BYTES_MAX = 1 << 20
"""A larger batch goes to LMDB at once: beside writing its bytes, the second flush costs little."""
STAYING_BYTES_MAX = 2 << 20
"""With more unsettled data in the journal LMDB catches up. Confirms wait meanwhile, so more would only make that
longer. Messages that are settled soon may fill the whole journal, and never go to LMDB."""
STAYING_MESSAGES_MAX = 2048
"""The same by number, for small messages."""
CATCH_UP_SECONDS = 0.2
"""Longest time that a batch is in the journal alone."""

RETRY_SECONDS = 1.0
"""Time between two tries of a batch that does not fit on the disk."""

SWITCH_SECONDS = 0.0005
"""Time after which the event loop gives up the interpreter (GIL) to the thread, which asks some twenty times a commit.
With Python's 5 ms one client that keeps the loop busy delayed all confirms by 0.1 to 0.4 s."""


class CommitLimits(NamedTuple):
    """Backlogs for the disk beyond which publishers are not read.

    Publishers with confirms bound their own backlog, so `batches_max` full batches may wait. Publishers without
    confirms would always fill these, and delay all confirms; so they are not read while a batch is written and the open
    one has `lazy_bytes_max`.
    """

    batches_max: int
    lazy_bytes_max: int


class Wait(Enum):
    """The next batch is written now (NO), or it waits."""

    NO = "no"
    FOR_DISK = "for the batch that is being written"
    FOR_OTHERS = "for clients that are ready to add to it"


class CommitPolicy:
    """Decides on the batches of one broker, one after the other. Times are seconds of any one clock."""

    def __init__(self, limits: CommitLimits) -> None:
        self._limits = limits
        self._lone_waiter: Waiter | None = None
        """The only one that waited for the last batch with waiters."""
        self._waited_at = self._not_before = 0.0
        self._disk = QuickDisk(QUICK_WRITES_MIN)
        self._catch_up_at: float | None = None
        self._catching_up_since: float | None = None

    # Now, or later?

    def wait(self, waiters: int, sealed: int, *, under_way: bool, no_room: bool) -> Wait:
        """Decide when the next batch is written: the open one, which has `waiters`, or the first of those `sealed`.

        Batches `under_way` are one at a time, and grow with the load: what gathers meanwhile is the next. On a full
        disk they are handed over as they come, for what they take away makes room. Each batch costs a write and the way
        to the thread and back, so few large ones are better where several clients wait; one client alone would only
        wait.
        """
        if under_way and not no_room:
            return Wait.FOR_DISK
        return Wait.NO if waiters < 2 or sealed or no_room else Wait.FOR_OTHERS

    def gathers(self, seconds: float) -> bool:
        """Return True if a batch that has waited for other clients for `seconds` goes on waiting."""
        return seconds <= GATHER_SECONDS

    def confirmed_publisher_waits(self, behind: int, *, overfull: bool) -> bool:
        """Return True if a client that waits for confirms is not read: too many full batches are `behind` the one that
        is written, or the open one, held open by a transaction, is `overfull`."""
        return behind > self._limits.batches_max or overfull

    def unconfirmed_publisher_waits(self, behind: int, gathered_bytes: int, *, under_way: bool) -> bool:
        """Return True if a client without confirms is not read, which is only while a batch is written."""
        return under_way and (behind > 0 or gathered_bytes >= self._limits.lazy_bytes_max)

    # The event loop, or the thread?

    def loop_writes(self, batch: SealedBatch, figures: JournalFigures, now: float, *, loop_busy: bool) -> bool:
        """Return True if the event loop writes a batch into the journal itself, which takes it as long as the disk.

        If no other client has work and the disk has been quick: waking the thread and being woken by it takes as long
        as such a write. Or if a client keeps the event loop busy, and batches are rare: the thread asks for the
        interpreter several times, and gets it once in a turn. To be asked of each batch while no other is under way:
        the next answers depend on it.
        """
        alone, rare = self._is_alone(batch, now), self._is_rare(batch, now)
        if not (alone or (loop_busy and rare)) or batch.deleted_queues or not self.journal_takes(batch.bytes, figures):
            return False
        since = self._catching_up_since
        return since is None or now - since <= HANGS_SECONDS

    def _is_alone(self, batch: SealedBatch, now: float) -> bool:
        """Return True if one client alone waits for this batch and waited for the last, it is small, the disk quick."""
        before = self._lone_waiter
        if len(batch.waiters) == 1:
            self._lone_waiter = batch.waiters[0]
        elif batch.waiters:
            self._lone_waiter = None
        if before is None or self._lone_waiter is not before or not self._disk.quick(now):
            return False
        settles = any(lane.settled for lane in batch.lanes)
        return batch.bytes <= (AT_ONCE_BYTES_MAX if settles else PUTS_AT_ONCE_BYTES_MAX)

    def _is_rare(self, batch: SealedBatch, now: float) -> bool:
        """Return True if the batch has waiters, none had any in the last RARE_SECONDS, and the disk is not slow."""
        if not batch.waiters:
            return False
        before, self._waited_at = self._waited_at, now
        return now >= self._not_before and now - before > RARE_SECONDS and batch.bytes <= RARE_BYTES_MAX

    def loop_wrote(self, write: JournalWrite, began: float, ended: float) -> None:
        """Note a write of the event loop, which took it from `began` to `ended`."""
        self.wrote(write, ended)
        if ended - began > SLOW_SECONDS:
            self._not_before = began + SLOW_FACTOR * (ended - began)

    def wrote(self, write: JournalWrite, now: float) -> None:
        """Note a write into the journal, by the thread or the event loop. A batch of transient messages needs none."""
        if write.size:
            self._disk.wrote(write.seconds, now)

    # The journal, or LMDB?

    def journal_takes(self, size: int, figures: JournalFigures) -> bool:
        """Return True if a batch of `size` bytes goes to the journal, as far as that has room, and not to LMDB."""
        if figures.staying > STAYING_MESSAGES_MAX or figures.staying_bytes > STAYING_BYTES_MAX:
            return False
        return size <= BATCH_BYTES_MAX

    def parcel_due(self, figures: JournalFigures) -> bool:
        """Return True if LMDB is to be given now what the event loop has written, and not only after a while."""
        return not figures.parcel_under_way and not self.journal_takes(0, figures)

    def seconds_to_catch_up(self, now: float, *, ahead: bool) -> float | None:
        """Return the seconds that the thread sleeps unless it is handed something; None: for ever.

        Then LMDB catches up, if the journal is `ahead` of it; 0: now.
        """
        if not ahead:
            self._catch_up_at = None
            return None
        if self._catch_up_at is None:
            self._catch_up_at = now + CATCH_UP_SECONDS
        return max(0.0, self._catch_up_at - now)

    def catching_up(self, now: float) -> None:
        """Note that LMDB begins to take over what the journal has."""
        self._catch_up_at = None
        self._catching_up_since = now

    def caught_up(self) -> None:
        """Note that LMDB has caught up, or failed to."""
        self._catching_up_since = None
