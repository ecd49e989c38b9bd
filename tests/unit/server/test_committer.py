"""The only writer: one batch at a time, in order, and nothing is confirmed that is not on disk."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from broker.server.commits import commit_policy
from broker.server.commits.commit_policy import (
    AT_ONCE_BYTES_MAX,
    HANGS_SECONDS,
    RARE_SECONDS,
    SLOW_FACTOR,
    SLOW_SECONDS,
    CommitLimits,
    CommitPolicy,
)
from broker.server.commits.commit_thread import CommitThread, Progress
from broker.server.commits.committer import Committer
from harness.brokers.broker_core import Core, Reader
from harness.brokers.broker_server import eventually
from harness.brokers.full_disk import no_file_larger_than
from harness.brokers.held_disk import HeldDisk
from storage.batch import SealedBatch
from storage.journal.journal_file import PAGE_BYTES
from storage.journal.journal_mark import JournalMark
from storage.messages.lmdb_writer import LmdbWriter
from storage.messages.message_store import MessageStore


class Waiter:
    """Somebody who waits for batches, and writes down which have come."""

    def __init__(self) -> None:
        self.told: list[int] = []
        self._changed = trio.Event()

    def stored(self, batch: int) -> None:
        self.told.append(batch)
        self._changed.set()
        self._changed = trio.Event()

    async def count(self, batches: int) -> None:
        while len(self.told) < batches:
            await self._changed.wait()


class Clock:
    """Seconds that a test sets, and that pass by `step` with each look of the event loop.

    A look of the commit thread passes none: it may come at any moment, also between two looks of the event loop, whose
    write would then seem to have taken longer.
    """

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.step = 0.0
        self._event_loop = threading.get_ident()

    def now(self) -> float:
        if threading.get_ident() == self._event_loop:
            self.seconds += self.step
        return self.seconds


class HeldLmdb:
    """LMDB that is written to while it is `open`; who writes before that waits. `begun` is set by the first."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.open, self.begun = threading.Event(), threading.Event()
        self._write = LmdbWriter.write
        patch.setattr(LmdbWriter, "write", lambda *arguments: self._held_write(*arguments))

    async def begin(self, at: Desk, nursery: trio.Nursery) -> None:
        """Have LMDB catch up with a first batch, and return when it is held at that."""
        at.publish(b"1")
        await at.waiter.count(1)
        nursery.start_soon(at.committer.catch_up)
        await trio.to_thread.run_sync(self.begun.wait)

    def _held_write(self, writer: LmdbWriter, batch: SealedBatch, mark: JournalMark | None) -> None:
        self.begun.set()
        assert self.open.wait(30), "nobody opened it"
        self._write(writer, batch, mark)


class Desk:
    """A core with a committer, and who waits for it."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.clock = Clock()
        self.full: list[bool] = []
        self.reclaimed: list[int] = []
        self.was_reclaimed = trio.Event()
        self.committer = Committer(
            core.broker,
            core.store,
            CommitLimits(batches_max=2, lazy_bytes_max=1000),
            on_stored=lambda: self.committer.start_commit(),
            on_full=self.full.append,
            on_reclaimed=self._note_reclaimed,
            writer=self._new_writer,
        )
        self.waiter = Waiter()

    def _new_writer(
        self, store: MessageStore, progress: Progress, deleted: dict[int, None], policy: CommitPolicy
    ) -> CommitThread:
        self.writer = CommitThread(store, progress, deleted, policy, self.clock.now)
        return self.writer

    def _note_reclaimed(self, queue_ids: list[int]) -> None:
        self.reclaimed += queue_ids
        self.was_reclaimed.set()

    def publish(self, *bodies: bytes, waiting: bool = True) -> None:
        """Messages into the queue `q`, and somebody waits for them to be stored."""
        self.core.deposit(self.core.queue(), *bodies)
        if waiting:
            self.core.broker.batches.wait(self.waiter)
        self.committer.start_commit()


@asynccontextmanager
async def desk(directory: Path, *, journal_bytes: int = 0) -> AsyncIterator[Desk]:
    core = Core(directory, journal_bytes=journal_bytes)
    if journal_bytes:
        core.store.commit(SealedBatch(0, (), (), (), (), (), 0, (), 0))  # the first of a boot goes to LMDB
    at = Desk(core)
    at.committer.start(())
    yield at
    with trio.fail_after(30):
        await at.committer.finish()
    core.close()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "messages"


async def test_what_gathers_during_a_commit_is_the_next_batch(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with desk(directory) as at:
        disk = HeldDisk(at.core.store, monkeypatch)
        disk.open.clear()
        at.publish(b"first")
        for number in range(20):
            at.publish(b"%d" % number)
            await trio.lowlevel.checkpoint()
        assert at.waiter.told == [], "nobody is told before the disk has it"
        disk.open.set()
        await at.waiter.count(2)
        assert disk.sizes == [1, 20]
        assert at.waiter.told == [1, 2]


async def test_what_nobody_waits_for_starts_nothing(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It rides along with the next that somebody waits for, or goes lazily."""
    async with desk(directory) as at:
        disk = HeldDisk(at.core.store, monkeypatch)
        at.publish(b"1", waiting=False)
        at.publish(b"2", waiting=False)
        assert not at.core.broker.batches.current.empty
        at.publish(b"3")
        await at.waiter.count(1)
        assert disk.sizes == [3]
        at.publish(b"4", waiting=False)
        assert len(disk.begun) == 1
        at.committer.start_commit(lazily=True)
        at.publish(b"5")
        await at.waiter.count(2)
        assert disk.sizes == [3, 1, 1]


async def test_a_batch_that_the_event_loop_writes_itself_is_not_waited_for(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stop waited for one more batch than there was, for five seconds, after a lone publisher on a quick disk."""
    monkeypatch.setattr(commit_policy, "QUICK_WRITES_MIN", 0)
    async with desk(directory, journal_bytes=1 << 20) as at:
        with trio.fail_after(30):
            for number in range(20):
                at.publish(b"%d" % number)
                await at.waiter.count(number + 1)
                at.publish(b"nobody waits", waiting=False)
                await at.committer.flush()


async def test_large_batches_of_a_lone_publisher_are_written_by_the_loop(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless something is acknowledged in them: then another client has work."""
    monkeypatch.setattr(commit_policy, "QUICK_WRITES_MIN", 0)
    async with desk(directory, journal_bytes=1 << 20) as at:
        with trio.fail_after(30):
            at.publish(b"1")
            await at.waiter.count(1)
            at.publish(bytes(2 * AT_ONCE_BYTES_MAX))
            assert at.waiter.told == [1, 2]
            reader = Reader()
            reader.consume(at.core.queue_named("q"))
            at.core.end_turn()
            reader.ack()
            at.publish(bytes(2 * AT_ONCE_BYTES_MAX))
            assert at.waiter.told == [1, 2]
            await at.waiter.count(3)


async def test_rare_batches_are_written_by_a_loop_that_a_client_keeps_busy(directory: Path) -> None:
    """Not one of many, and after a slow write not for twenty times as long: that is left to the thread."""
    async with desk(directory, journal_bytes=1 << 20) as at:
        with trio.fail_after(30):
            at.publish(b"1")
            assert at.waiter.told == [], "nobody keeps the loop busy"
            await at.waiter.count(1)
            async with at.committer.round_robin:
                at.clock.seconds += 2 * RARE_SECONDS
                at.clock.step = 2 * SLOW_SECONDS
                at.publish(b"2")
                assert at.waiter.told == [1, 2], "on disk when this returns"
                at.clock.step = 0.0
                at.clock.seconds += SLOW_FACTOR * SLOW_SECONDS
                at.publish(b"3")
                assert at.waiter.told == [1, 2], "the disk was slow"
                await at.waiter.count(3)
                at.clock.seconds += 2 * SLOW_FACTOR * SLOW_SECONDS
                at.publish(b"4")
                assert at.waiter.told == [1, 2, 3, 4]
                at.publish(b"5")
                assert at.waiter.told == [1, 2, 3, 4], "it is not rare"
                await at.waiter.count(5)


async def test_clients_with_much_to_do_wait_for_lmdb(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it catches up and somebody waits for a commit, and not longer."""
    async with desk(directory, journal_bytes=1 << 20) as at, trio.open_nursery() as nursery:
        gone_on = trio.Event()

        async def go_on() -> None:
            await at.committer.lmdb_at_rest()
            gone_on.set()

        lmdb = HeldLmdb(monkeypatch)
        with trio.fail_after(30):
            await lmdb.begin(at, nursery)
            await at.committer.lmdb_at_rest()  # nobody waits
            at.publish(b"2")
            at.committer.waiting[2] = trio.current_time()
            nursery.start_soon(go_on)
            await trio.testing.wait_all_tasks_blocked()
            assert not gone_on.is_set()
            lmdb.open.set()
            await gone_on.wait()
            await at.waiter.count(2)


async def test_a_lone_publisher_goes_on_while_lmdb_catches_up(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the journal is full of what LMDB has not got: the next batch waits for LMDB, and goes there."""
    monkeypatch.setattr(commit_policy, "QUICK_WRITES_MIN", 0)
    async with desk(directory, journal_bytes=8 * PAGE_BYTES) as at, trio.open_nursery() as nursery:
        lmdb = HeldLmdb(monkeypatch)
        with trio.fail_after(30):
            await lmdb.begin(at, nursery)
            batches = 1
            while len(at.waiter.told) == batches:
                batches += 1
                at.publish(b"%d" % batches)
            assert at.waiter.told == [*range(1, 9)], "one in each page"
            queue = at.core.queue_named("q").store.queue_id
            assert len(at.core.store.read(queue, 0, 0, 1 << 63, 100, 1 << 20)) == 8
            lmdb.open.set()
            await at.waiter.count(batches)
            await at.committer.catch_up()
            assert not at.core.store.journal.ahead
        assert len(at.core.store.read(queue, 0, 0, 1 << 63, 100, 1 << 20)) == batches


async def test_beside_an_lmdb_that_hangs_the_loop_writes_nothing(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk was quick before; now it would hold up everybody's heartbeats."""
    monkeypatch.setattr(commit_policy, "QUICK_WRITES_MIN", 0)
    async with desk(directory, journal_bytes=1 << 20) as at, trio.open_nursery() as nursery:
        lmdb = HeldLmdb(monkeypatch)
        with trio.fail_after(30):
            await lmdb.begin(at, nursery)
            at.clock.seconds += 2 * HANGS_SECONDS
            at.publish(b"2")
            assert at.waiter.told == [1]
            lmdb.open.set()
            await at.waiter.count(2)
            await at.committer.catch_up()
            at.publish(b"3")
            assert at.waiter.told == [1, 2, 3]


async def test_nobody_adds_to_a_full_batch_that_is_held_open(directory: Path) -> None:
    """A large transaction is one batch; who publishes meanwhile waits for the end of it."""
    async with desk(directory) as at:
        batches = at.core.broker.batches
        batches.keep_open()
        at.publish(*[bytes(1 << 20)] * 2)
        with trio.move_on_after(0) as waiting:
            await at.committer.backpressure(confirmed=True)
        assert waiting.cancelled_caught
        batches.release_open()
        at.committer.start_commit()
        with trio.fail_after(30):
            await at.waiter.count(1)
            await at.committer.backpressure(confirmed=True)


async def test_a_full_disk_is_waited_out(
    directory: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is confirmed, lost or put out of order; the alarm comes once and goes."""
    monkeypatch.setattr(commit_policy, "RETRY_SECONDS", 0.02)
    async with desk(directory) as at:
        at.core.deposit(at.core.queue("first"), b"before")
        at.publish(b"before")
        await at.waiter.count(1)
        disk = HeldDisk(at.core.store, monkeypatch)
        with no_file_larger_than((directory / "data.mdb").stat().st_size + 65536):
            at.publish(*[bytes(100_000)] * 5)
            at.publish(b"behind")
            await eventually(lambda: len(disk.begun) > 3, "several tries")
            assert at.full == [True]
            assert at.waiter.told == [1]
            purged = Waiter()  # what makes room does not stand in line behind it
            at.core.queue_named("first").purge()
            at.core.broker.batches.wait_for_removal(purged)
            at.committer.start_commit()
            with trio.fail_after(30):
                await purged.count(1)
            assert at.waiter.told == [1]
            assert at.core.store.lanes()[at.core.queue_named("first").store.queue_id][0].messages == 0
            disk.open.clear()
            tries = len(disk.begun)
            await eventually(lambda: len(disk.begun) > tries, "the next try, held at the disk")
        disk.open.set()
        with trio.fail_after(30):
            await at.waiter.count(2)
        assert at.waiter.told[1:] == [at.waiter.told[-1]]
        assert at.full == [True, False]
        assert disk.sizes[-1] == 6
    assert caplog.text.count("publishers are blocked") == 1


async def test_queues_deleted_before_the_start_are_cleared_away(directory: Path) -> None:
    core = Core(directory)
    core.deposit(core.queue(), b"x")
    core.commit()
    queue = core.queue_named("q")
    core.definitions.queues.clear()
    core.definitions.deleted_queues.add(queue.store.queue_id)
    core.crash()
    at = Desk(core)
    at.committer.start([queue.store.queue_id])
    with trio.fail_after(30):
        await at.was_reclaimed.wait()
        await at.committer.finish()
    assert at.reclaimed == [queue.store.queue_id]
    assert core.store.pending_deletions() == set()
    core.close()
