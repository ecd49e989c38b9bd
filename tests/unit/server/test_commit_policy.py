"""The policy of commits, decision by decision, without a thread, a clock or a disk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pytest

from broker.entities.scheduling.future import Future
from broker.entities.scheduling.pending_batches import PendingBatches
from broker.server.commits.commit_policy import (
    AT_ONCE_BYTES_MAX,
    BATCH_BYTES_MAX,
    CATCH_UP_SECONDS,
    GATHER_SECONDS,
    HANGS_SECONDS,
    PUTS_AT_ONCE_BYTES_MAX,
    RARE_BYTES_MAX,
    RARE_SECONDS,
    SLOW_FACTOR,
    SLOW_SECONDS,
    STAYING_BYTES_MAX,
    STAYING_MESSAGES_MAX,
    CommitLimits,
    CommitPolicy,
    Wait,
)
from broker.server.commits.quick_disk import FRESH_SECONDS, QUICK_SECONDS, QUICK_WRITES_MIN
from broker.session.channel.transaction_contents import Transaction
from storage.batch import LaneCounters, SealedBatch, SealedLane, Waiter
from storage.journal.journal import JournalFigures
from storage.journal.journal_file import JournalWrite

LIMITS = CommitLimits(batches_max=4, lazy_bytes_max=4 << 20)
LITTLE_STAYS = JournalFigures(staying=1, staying_bytes=100, parcel_under_way=False, first=False)
QUICK_WRITE = JournalWrite(4096, QUICK_SECONDS / 2)
SLOW_WRITE = JournalWrite(4096, 2 * QUICK_SECONDS)
HUNG_WRITE = JournalWrite(4096, 2 * HANGS_SECONDS)
NO_WRITE = JournalWrite(0, 0.0)
NOW = 1000.0


class Client:
    """Somebody who waits for batches."""

    def stored(self, batch: int) -> None:
        raise AssertionError("nothing is stored here")


ONE, OTHER = Client(), Client()


def batch(
    waiters: Sequence[Waiter] = (ONE,), size: int = 100, *, settles: bool = False, deletes: bool = False
) -> SealedBatch:
    lane = SealedLane(1, 0, (), (7,) if settles else (), LaneCounters(0, 0, 0, 0))
    return SealedBatch(1, (lane,), (), (1,) if deletes else (), tuple(waiters), bytes=size)


# Decision 4: one that several wait for is handed over a little later


@pytest.mark.parametrize(
    ("waiters", "sealed", "under_way", "no_room", "waits"),
    [
        pytest.param(1, 0, False, False, Wait.NO, id="a client alone is not kept waiting"),
        pytest.param(0, 0, False, False, Wait.NO, id="nor a batch that goes lazily"),
        pytest.param(2, 0, False, False, Wait.FOR_OTHERS, id="several clients: others may be ready"),
        pytest.param(2, 1, False, False, Wait.NO, id="a full batch is the next"),
        pytest.param(1, 0, True, False, Wait.FOR_DISK, id="one at a time: what gathers meanwhile is the next"),
        pytest.param(2, 0, True, False, Wait.FOR_DISK, id="one at a time, also of several clients"),
        pytest.param(1, 0, True, True, Wait.NO, id="on a full disk what takes away may make room"),
        pytest.param(2, 0, True, True, Wait.NO, id="on a full disk, also of several clients"),
    ],
)
def test_the_next_batch_waits(waiters: int, sealed: int, under_way: bool, no_room: bool, waits: Wait) -> None:
    assert CommitPolicy(LIMITS).wait(waiters, sealed, under_way=under_way, no_room=no_room) is waits


def test_several_clients_batch_waits_for_two_milliseconds_at_the_latest() -> None:
    policy = CommitPolicy(LIMITS)
    assert policy.gathers(0.0)
    assert policy.gathers(GATHER_SECONDS)
    assert not policy.gathers(1.01 * GATHER_SECONDS)


# Decision 32: publishers without confirms


@pytest.mark.parametrize(
    ("behind", "overfull", "waits"),
    [
        pytest.param(4, False, False, id="four full batches may wait"),
        pytest.param(5, False, True, id="and no more"),
        pytest.param(0, True, True, id="nobody adds to a large transaction's batch"),
    ],
)
def test_a_publisher_with_confirms_waits(behind: int, overfull: bool, waits: bool) -> None:
    assert CommitPolicy(LIMITS).confirmed_publisher_waits(behind, overfull=overfull) is waits


@pytest.mark.parametrize(
    ("behind", "gathered", "under_way", "waits"),
    [
        pytest.param(0, (4 << 20) - 1, True, False, id="less than 4 MiB gather behind a commit"),
        pytest.param(0, 4 << 20, True, True, id="4 MiB have gathered behind it"),
        pytest.param(1, 0, True, True, id="a full batch waits behind it"),
        pytest.param(1, 4 << 20, False, False, id="nothing is being written"),
    ],
)
def test_a_publisher_without_confirms_waits(behind: int, gathered: int, under_way: bool, waits: bool) -> None:
    assert CommitPolicy(LIMITS).unconfirmed_publisher_waits(behind, gathered, under_way=under_way) is waits


@pytest.mark.parametrize(("size", "awaited", "cut"), [(1023, False, False), (1024, False, True), (1024, True, False)])
def test_a_batch_that_no_client_waits_for_is_cut_smaller(size: int, awaited: bool, cut: bool) -> None:
    """The place of gathering: the one rule of decision 32 that is kept below the policy."""
    batches = PendingBatches(batch_bytes_max=4096, lazy_bytes_max=1024)
    if awaited:
        batches.wait(ONE)
    batches.current.bytes = size
    batches.seal_if_full()
    assert bool(batches.sealed) is cut


# Decisions 4 and 41: the event loop writes itself


class Case(NamedTuple):
    """One batch in a broker: the batches and writes before it, and who writes it."""

    batch: SealedBatch
    loop_writes: bool
    before: SealedBatch | None = batch()
    writes: Sequence[JournalWrite] = (QUICK_WRITE,) * QUICK_WRITES_MIN
    figures: JournalFigures = LITTLE_STAYS
    loop_busy: bool = False
    idle_seconds: float = 0.0
    """Since somebody waited for the batch before."""
    catching_up_seconds: float | None = None
    """Since LMDB began to catch up."""
    quiet_seconds: float = 0.0
    """Since the last of the writes."""


LONE = {
    "a lone client on a quick disk": Case(batch(), True),
    "it waits for the first time": Case(batch(), False, before=None),
    "another client waited for the one before": Case(batch([OTHER]), False),
    "two clients waited for the one before": Case(batch(), False, before=batch([ONE, OTHER])),
    "two clients wait": Case(batch([ONE, OTHER]), False),
    "nobody waits, and the same client did before": Case(batch([]), True),
    "nineteen quick writes": Case(batch(), False, writes=(QUICK_WRITE,) * (QUICK_WRITES_MIN - 1)),
    "a slow write now and then": Case(batch(), True, writes=(*(QUICK_WRITE,) * 40, SLOW_WRITE)),
    "three slow writes in a row": Case(batch(), False, writes=(*(QUICK_WRITE,) * 40, *(SLOW_WRITE,) * 3)),
    "a write that hung, and nineteen quick ones": Case(
        batch(), False, writes=(*(QUICK_WRITE,) * 40, HUNG_WRITE, *(QUICK_WRITE,) * (QUICK_WRITES_MIN - 1))
    ),
    "nothing was written for a second": Case(batch(), False, quiet_seconds=1.01 * FRESH_SECONDS),
    "every fifth is slow": Case(batch(), False, writes=(*(QUICK_WRITE,) * 4, SLOW_WRITE) * 20),
    "every seventh is slow": Case(batch(), True, writes=(*(QUICK_WRITE,) * 6, SLOW_WRITE) * 20),
    "a batch that needed no write is none": Case(
        batch(), False, writes=(*(QUICK_WRITE,) * (QUICK_WRITES_MIN - 1), NO_WRITE)
    ),
    "16 KiB with acknowledgements": Case(batch(size=AT_ONCE_BYTES_MAX, settles=True), True),
    "more with acknowledgements": Case(batch(size=AT_ONCE_BYTES_MAX + 1, settles=True), False),
    "320 KiB of publishes alone": Case(batch(size=PUTS_AT_ONCE_BYTES_MAX), True),
    "more of publishes alone": Case(batch(size=PUTS_AT_ONCE_BYTES_MAX + 1), False),
    "a queue is deleted": Case(batch(deletes=True), False),
    "beside an LMDB that catches up": Case(batch(), True, catching_up_seconds=HANGS_SECONDS / 2),
    "beside an LMDB that hangs": Case(batch(), False, catching_up_seconds=2 * HANGS_SECONDS),
    "much is to stay": Case(batch(), False, figures=LITTLE_STAYS._replace(staying_bytes=STAYING_BYTES_MAX + 1)),
    "many are to stay": Case(batch(), False, figures=LITTLE_STAYS._replace(staying=STAYING_MESSAGES_MAX + 1)),
}
RARE = {
    "several clients on a loop that is kept busy": Case(
        batch([ONE, OTHER]), True, loop_busy=True, idle_seconds=2 * RARE_SECONDS
    ),
    "on an idle loop": Case(batch([ONE, OTHER]), False, idle_seconds=2 * RARE_SECONDS),
    "one of many batches": Case(batch([ONE, OTHER]), False, loop_busy=True, idle_seconds=RARE_SECONDS / 2),
    "128 KiB": Case(batch([OTHER], RARE_BYTES_MAX), True, loop_busy=True, idle_seconds=2 * RARE_SECONDS),
    "more than 128 KiB": Case(batch([OTHER], RARE_BYTES_MAX + 1), False, loop_busy=True, idle_seconds=2 * RARE_SECONDS),
    "nobody waits": Case(batch([]), False, before=batch([OTHER, ONE]), loop_busy=True, idle_seconds=2 * RARE_SECONDS),
    "it deletes a queue": Case(batch([OTHER], deletes=True), False, loop_busy=True, idle_seconds=2 * RARE_SECONDS),
    "LMDB hangs": Case(
        batch([OTHER]), False, loop_busy=True, idle_seconds=2 * RARE_SECONDS, catching_up_seconds=2 * HANGS_SECONDS
    ),
}


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in {**LONE, **RARE}.items()])
def test_the_event_loop_writes_a_batch(case: Case) -> None:
    policy = CommitPolicy(LIMITS)
    for write in case.writes:
        policy.wrote(write, NOW - case.quiet_seconds)
    if case.before is not None:
        policy.loop_writes(case.before, LITTLE_STAYS, NOW - case.idle_seconds, loop_busy=False)
    if case.catching_up_seconds is not None:
        policy.catching_up(NOW - case.catching_up_seconds)
    assert policy.loop_writes(case.batch, case.figures, NOW, loop_busy=case.loop_busy) is case.loop_writes
    if case.catching_up_seconds is not None:
        policy.caught_up()
        assert policy.loop_writes(case.batch, case.figures, NOW + 1, loop_busy=True) is not case.batch.deleted_queues


def test_after_a_slow_write_rare_batches_are_the_threads_for_twenty_times_as_long() -> None:
    policy, seconds = CommitPolicy(LIMITS), 2 * SLOW_SECONDS
    policy.loop_wrote(SLOW_WRITE, NOW, NOW + seconds)
    ends = NOW + SLOW_FACTOR * seconds
    assert not policy.loop_writes(batch([ONE, OTHER]), LITTLE_STAYS, ends - RARE_SECONDS / 2, loop_busy=True)
    assert policy.loop_writes(batch([ONE, OTHER]), LITTLE_STAYS, ends + RARE_SECONDS, loop_busy=True)
    policy.loop_wrote(QUICK_WRITE, NOW, NOW + SLOW_SECONDS / 2)
    assert policy.loop_writes(batch([ONE, OTHER]), LITTLE_STAYS, ends + 3 * RARE_SECONDS, loop_busy=True)


# Decision 41: the journal in front of LMDB


@pytest.mark.parametrize(
    ("size", "staying", "staying_bytes", "journal"),
    [
        pytest.param(BATCH_BYTES_MAX, 0, 0, True, id="a batch of 1 MiB"),
        pytest.param(BATCH_BYTES_MAX + 1, 0, 0, False, id="a larger batch"),
        pytest.param(100, STAYING_MESSAGES_MAX, 0, True, id="2,048 messages are to stay"),
        pytest.param(100, STAYING_MESSAGES_MAX + 1, 0, False, id="more are to stay"),
        pytest.param(100, 1, STAYING_BYTES_MAX, True, id="2 MiB are to stay"),
        pytest.param(100, 1, STAYING_BYTES_MAX + 1, False, id="more bytes are to stay"),
    ],
)
def test_a_batch_goes_to_the_journal_or_to_lmdb(size: int, staying: int, staying_bytes: int, journal: bool) -> None:
    """LMDB catches up with all that it lacks where the journal does not take one."""
    policy = CommitPolicy(LIMITS)
    for under_way in (False, True):
        figures = JournalFigures(staying, staying_bytes, parcel_under_way=under_way, first=False)
        assert policy.journal_takes(size, figures) is journal


@pytest.mark.parametrize(
    ("staying", "staying_bytes", "under_way", "due"),
    [
        pytest.param(STAYING_MESSAGES_MAX, STAYING_BYTES_MAX, False, False, id="little is to stay"),
        pytest.param(STAYING_MESSAGES_MAX + 1, 0, False, True, id="many messages are to stay"),
        pytest.param(1, STAYING_BYTES_MAX + 1, False, True, id="many bytes are to stay"),
        pytest.param(1, STAYING_BYTES_MAX + 1, True, False, id="LMDB has not got the parcel before"),
    ],
)
def test_lmdb_is_given_what_the_loop_has_written(staying: int, staying_bytes: int, under_way: bool, due: bool) -> None:
    figures = JournalFigures(staying, staying_bytes, parcel_under_way=under_way, first=False)
    assert CommitPolicy(LIMITS).parcel_due(figures) is due


def test_the_thread_sleeps_until_lmdb_catches_up_every_fifth_of_a_second() -> None:
    policy = CommitPolicy(LIMITS)
    assert policy.seconds_to_catch_up(NOW, ahead=False) is None
    assert policy.seconds_to_catch_up(NOW, ahead=True) == pytest.approx(CATCH_UP_SECONDS)
    assert policy.seconds_to_catch_up(NOW + CATCH_UP_SECONDS / 2, ahead=True) == pytest.approx(CATCH_UP_SECONDS / 2)
    assert policy.seconds_to_catch_up(NOW + 2 * CATCH_UP_SECONDS, ahead=True) == 0
    policy.catching_up(NOW + 2 * CATCH_UP_SECONDS)
    policy.caught_up()
    later = NOW + 3 * CATCH_UP_SECONDS
    assert policy.seconds_to_catch_up(later, ahead=True) == pytest.approx(CATCH_UP_SECONDS), "a fifth after that"
    assert policy.seconds_to_catch_up(later, ahead=False) is None
    later += CATCH_UP_SECONDS
    assert policy.seconds_to_catch_up(later, ahead=True) == pytest.approx(CATCH_UP_SECONDS), "it had all meanwhile"


def test_a_channel_that_commits_again_and_again_is_one_client() -> None:
    """Its commits are answered one by one."""
    policy, batches, transaction = CommitPolicy(LIMITS), PendingBatches(4096, 1024), Transaction()
    for _ in range(QUICK_WRITES_MIN):
        policy.wrote(QUICK_WRITE, NOW)
    by_the_loop, commits = list[bool](), list[Future[None]]()
    for _ in range(2):
        commits.append(transaction.on_disk(batches))
        waited_for = batch(tuple(batches.current.waiters))
        by_the_loop.append(policy.loop_writes(waited_for, LITTLE_STAYS, NOW, loop_busy=False))
        batches.next(lazily=True)
    assert by_the_loop == [False, True]
    transaction.stored(1)
    assert [commit.done for commit in commits] == [True, False]
    transaction.stored(2)
    assert commits[1].done
