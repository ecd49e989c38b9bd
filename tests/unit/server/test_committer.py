"""The only writer: one batch at a time, in order, and nothing is confirmed that is not on disk."""

from __future__ import annotations

import math
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from broker.server import committer as committer_module
from broker.server.committer import CommitLimits, Committer
from harness.brokers.broker_core import Core
from harness.brokers.broker_server import eventually
from harness.brokers.full_disk import no_file_larger_than
from storage.batch import SealedBatch
from storage.messages.message_store import MessageStore
from storage.storage_errors import StoreFailed


class Gate:
    """Holds the disk: with it closed, a commit that has begun does not end. Tells which batches were begun."""

    def __init__(self, store: MessageStore, patch: pytest.MonkeyPatch) -> None:
        self.begun: list[SealedBatch] = []
        self._let_through = math.inf
        self._changed = threading.Condition()
        self._commit = store.commit
        patch.setattr(store, "commit", self._held_commit)

    def _held_commit(self, batch: SealedBatch) -> None:
        self.begun.append(batch)
        with self._changed:
            assert self._changed.wait_for(lambda: self._let_through > 0, 30), "nobody opened the gate"
            self._let_through -= 1
        self._commit(batch)

    def close(self) -> None:
        self.let_through(0)

    def open(self) -> None:
        self.let_through(math.inf)

    def let_through(self, batches: float) -> None:
        """So many end from now on, those included that have begun."""
        with self._changed:
            self._let_through = batches
            self._changed.notify_all()

    @property
    def sizes(self) -> list[int]:
        """How many messages each batch brought that was begun."""
        return [sum(len(lane.puts) for lane in batch.lanes) for batch in self.begun]


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


class Desk:
    """A core with a committer, and who waits for it."""

    def __init__(self, core: Core) -> None:
        self.core = core
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
        )
        self.waiter = Waiter()

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
async def desk(directory: Path) -> AsyncIterator[Desk]:
    core = Core(directory)
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
        gate = Gate(at.core.store, monkeypatch)
        gate.close()
        at.publish(b"first")
        for number in range(20):
            at.publish(b"%d" % number)
            await trio.lowlevel.checkpoint()
        assert at.waiter.told == [], "nobody is told before the disk has it"
        gate.open()
        await at.waiter.count(2)
        assert gate.sizes == [1, 20]
        assert at.waiter.told == [1, 2]


async def test_full_batches_are_written_in_their_order(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with desk(directory) as at:
        gate = Gate(at.core.store, monkeypatch)
        gate.close()
        at.publish(b"0")
        for number in range(1, 5):
            at.publish(b"%d" % number)
            at.core.broker.batches.seal()
        assert at.committer.behind == 4
        gate.open()
        await at.waiter.count(5)
        assert [batch.number for batch in gate.begun] == [1, 2, 3, 4, 5]
        assert at.waiter.told == [1, 2, 3, 4, 5]


async def test_what_nobody_waits_for_starts_nothing(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It rides along with the next that somebody waits for, or goes lazily."""
    async with desk(directory) as at:
        gate = Gate(at.core.store, monkeypatch)
        at.publish(b"1", waiting=False)
        at.publish(b"2", waiting=False)
        assert not at.core.broker.batches.current.empty
        at.publish(b"3")
        await at.waiter.count(1)
        assert gate.sizes == [3]
        at.publish(b"4", waiting=False)
        assert len(gate.begun) == 1
        at.committer.start_commit(lazily=True)
        at.publish(b"5")
        await at.waiter.count(2)
        assert gate.sizes == [3, 1, 1]


async def test_who_is_too_fast_waits_until_the_disk_has_caught_up(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(directory) as at:
        gate = Gate(at.core.store, monkeypatch)
        gate.close()
        at.publish(b"0")
        for number in range(1, 6):
            at.publish(b"%d" % number)
            at.core.broker.batches.seal()
        assert at.committer.behind == 5
        behind: list[int] = []

        async def publisher() -> None:
            await at.committer.room(confirmed=True)
            behind.append(at.committer.behind)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(publisher)
            gate.let_through(2)
            await at.waiter.count(2)
            await trio.testing.wait_all_tasks_blocked()
            assert (at.committer.behind, behind) == (3, [])
            gate.let_through(1)
        assert behind == [2]
        gate.open()


async def test_who_wants_no_confirms_waits_sooner(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As soon as what gathers behind a commit is large; not for an idle disk."""
    async with desk(directory) as at:
        gate = Gate(at.core.store, monkeypatch)
        gate.close()
        await at.committer.room(confirmed=False)
        at.publish(b"in flight")
        at.publish(bytes(500))
        await at.committer.room(confirmed=False)
        at.publish(bytes(500))
        free: list[bool] = []

        async def publisher() -> None:
            await at.committer.room(confirmed=False)
            free.append(True)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(publisher)
            await at.committer.room(confirmed=True)
            await trio.testing.wait_all_tasks_blocked()
            assert free == []
            gate.open()
        assert free == [True]


async def test_finishing_writes_everything(directory: Path) -> None:
    core = Core(directory)
    at = Desk(core)
    at.committer.start(())
    at.publish(b"1")
    core.broker.batches.seal()
    at.publish(b"2", b"3", waiting=False)
    await at.committer.finish()
    core.crash()
    assert len(core.queue_named("q").ready_messages) == 3
    core.close()


async def test_a_broken_disk_ends_it_and_confirms_nothing(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    core = Core(directory)
    at = Desk(core)
    at.publish(b"on disk")
    at.committer.start(())
    await at.waiter.count(1)
    core.store.close()
    at.publish(b"not on disk")
    with pytest.raises(StoreFailed), trio.fail_after(30):
        await at.committer.watch()
    assert at.waiter.told == [1]
    assert "without another confirm" in caplog.text
    at.publish(b"later")
    assert at.committer.behind == 0, "no batch is taken any more"
    with MessageStore.open(directory) as store:
        assert [state.messages for lanes in store.lanes().values() for state in lanes.values()] == [1]


async def test_a_full_disk_is_waited_out(
    directory: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is confirmed, lost or put out of order; the alarm comes once and goes."""
    monkeypatch.setattr(committer_module, "RETRY_SECONDS", 0.02)
    async with desk(directory) as at:
        at.publish(b"before")
        await at.waiter.count(1)
        gate = Gate(at.core.store, monkeypatch)
        with no_file_larger_than((directory / "data.mdb").stat().st_size + 65536):
            at.publish(*[bytes(100_000)] * 5)
            at.publish(b"behind")
            await eventually(lambda: len(gate.begun) > 3, "several tries")
            assert at.full == [True]
            assert at.waiter.told == [1]
            gate.close()
            tries = len(gate.begun)
            await eventually(lambda: len(gate.begun) > tries, "the next try, held at the gate")
        gate.open()
        with trio.fail_after(30):
            await at.waiter.count(3)
        assert at.waiter.told == [1, 2, 3]
        assert at.full == [True, False]
        assert {batch.number for batch in gate.begun} == {2, 3}
        assert gate.sizes[-2:] == [5, 1]
    assert caplog.text.count("publishers are blocked") == 1


async def test_deleted_queues_are_cleared_away_and_told(directory: Path) -> None:
    async with desk(directory) as at:
        at.publish(*(b"%d" % number for number in range(300)))
        await at.waiter.count(1)
        queue = at.core.queue_named("q")
        at.core.vhost.delete_queue(queue)
        at.core.broker.batches.wait(at.waiter)
        at.committer.start_commit()
        with trio.fail_after(30):
            await at.was_reclaimed.wait()
        assert at.reclaimed == [queue.store.queue_id]
        assert at.core.store.lanes() == {}
        assert at.committer.deleted == {}


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
