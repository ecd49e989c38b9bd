"""Changes of definitions on their way to SQLite: in order, grouped while a transaction runs, each with its own fate."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import trio
import trio.testing

from broker.entities.queues.events.event_recording import DELETE, Recorder
from broker.entities.scheduling.future import Future
from broker.server import definition_writer
from broker.server.definition_writer import DefinitionLog
from broker.wire.amqp_errors import ConnectionException
from harness.brokers.broker_server import eventually
from storage.definitions import definition_rows as changes
from storage.definitions.definition_rows import Change, Put, QueueRow, delete
from storage.definitions.definition_store import DefinitionsFull, DefinitionStore


class Disk:
    """The store's commits: how many changes each brought. Closed, one that has begun does not end; full, it fails."""

    def __init__(self, store: DefinitionStore, patch: pytest.MonkeyPatch) -> None:
        self.sizes: list[int] = []
        self.full = False
        self._commit = store.commit
        self._open = threading.Event()
        self._open.set()
        self.begun = threading.Semaphore(0)
        patch.setattr(store, "commit", self._watched_commit)

    def _watched_commit(self, batch: Sequence[Change]) -> None:
        self.sizes.append(len(batch))
        self.begun.release()
        assert self._open.wait(30), "nobody opened it"
        if self.full:
            raise DefinitionsFull("definitions.sqlite: the disk is full")
        self._commit(batch)

    def close(self) -> None:
        self._open.clear()

    def open(self) -> None:
        self._open.set()

    async def await_commit(self) -> None:
        """Return when one more commit has begun."""
        await trio.to_thread.run_sync(self.begun.acquire)


def nobody_sleeps() -> None:
    """There is no engine to be woken."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DefinitionStore]:
    with DefinitionStore.open(tmp_path / "definitions.sqlite") as store:
        yield store


@pytest.fixture
def disk(store: DefinitionStore, monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(store, monkeypatch)


@pytest.fixture
def log(store: DefinitionStore, disk: Disk) -> DefinitionLog:
    """A log whose writer does not run: it writes when it is flushed."""
    return DefinitionLog(store, 0, nobody_sleeps)


@pytest.fixture
def written(log: DefinitionLog, nursery: trio.Nursery) -> DefinitionLog:
    """A log that is written by its own task."""
    nursery.start_soon(log.run)
    return log


def vhost(name: str) -> Change:
    return changes.Put(changes.VhostRow(name))


IMPOSSIBLE = changes.Put(changes.PermissionRow("nobody", "nowhere", "", "", ""))
"""Refused by the store: neither end of it exists."""


def names(store: DefinitionStore) -> list[str]:
    return [row.name for row in store.load().vhosts]


async def settled(*futures: Future[None]) -> list[str]:
    """Wait until all have settled, and say how."""
    left = len(futures)
    done = trio.Event()

    def count(_: object) -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set()

    for future in futures:
        future.then(count)
    with trio.fail_after(30):
        await done.wait()
    return [outcome(future) for future in futures]


def outcome(future: Future[None]) -> str:
    try:
        future.result()
    except ConnectionException as error:
        return f"{int(error.code)} {error.text.rpartition(': ')[2]}"
    return "written"


async def test_one_failure_is_not_the_others(log: DefinitionLog, store: DefinitionStore, disk: Disk) -> None:
    """Changes written together are tried one by one when they fail together: 506 for whose it is, and nobody else.

    Those of one group are made together or not at all.
    """
    fine, user = (vhost("b"), changes.Put(changes.UserRow("u", "", "")))
    futures = [log.write(vhost("a")), log.write(vhost("half"), IMPOSSIBLE), log.write(fine, user)]
    await log.flush()
    assert await settled(*futures) == ["written", "506 FOREIGN KEY constraint failed", "written"]
    assert disk.sizes == [5, 1, 2, 2]
    assert names(store) == ["a", "b"]


async def test_order_holds_when_changes_are_tried_one_by_one(log: DefinitionLog, store: DefinitionStore) -> None:
    """A deletion after a creation deletes, also when a third change made both start over."""
    row = QueueRow(log.new_queue_id(), "v", "q", False, b"\0\0\0\0")
    futures = [log.write(change) for change in (vhost("v"), Put(row), IMPOSSIBLE, delete(QueueRow, id=row.id))]
    await log.flush()
    await settled(*futures)
    assert store.load().queues == ()
    assert store.load().tombstones == {row.id}


async def test_what_an_answer_causes_is_written_too(store: DefinitionStore, disk: Disk) -> None:
    """Queue ids go on from the higher one of both stores."""
    log = DefinitionLog(store, 41, nobody_sleeps)
    assert [log.new_queue_id(), log.new_queue_id()] == [42, 43]
    both = log.write(vhost("one")).chain(lambda _: log.write(vhost("two")))
    await log.flush()
    assert both.done
    assert names(store) == ["one", "two"]


async def test_events_are_handed_over_before_what_they_say_is_written(store: DefinitionStore) -> None:
    on_disk: list[list[str]] = []
    recorder = Recorder(1, lambda records, first, events: on_disk.append(names(store)), nobody_sleeps)
    log = DefinitionLog(store, 0, nobody_sleeps, recorder)
    recorder.add(DELETE, 1)
    log.write(vhost("v"))
    await log.flush()
    assert on_disk == [[]]


@pytest.mark.parametrize("how", ["flush", "load"])
async def test_flushing_and_loading_wait_for_what_another_task_is_writing(
    disk: Disk, written: DefinitionLog, nursery: trio.Nursery, how: str
) -> None:
    disk.close()
    future = written.write(vhost("v"))
    await disk.await_commit()
    ended: list[bool] = []

    async def wait() -> None:
        await getattr(written, how)()
        ended.append(future.done)

    nursery.start_soon(wait)
    await trio.testing.wait_all_tasks_blocked()
    assert ended == []
    disk.open()
    await eventually(lambda: ended == [True], "it to end behind the other")


async def test_a_cancelled_writer_finishes_what_it_has_begun(
    log: DefinitionLog, store: DefinitionStore, disk: Disk
) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(log.run)
        disk.close()
        future = log.write(vhost("v"))
        await disk.await_commit()
        nursery.cancel_scope.cancel()
        disk.open()
    assert future.done
    assert names(store) == ["v"]


@pytest.fixture
def owing(store: DefinitionStore, disk: Disk) -> DefinitionLog:
    """The log of a store with the queue `ROW`, on a disk that is full from now on."""
    store.commit([vhost("v"), Put(ROW)])
    disk.full = True
    return DefinitionLog(store, 1, nobody_sleeps)


ROW = QueueRow(1, "v", "q", False, b"\0\0\0\0")
FULL = "506 the disk is full"


async def test_a_deletion_that_cannot_be_written_is_owed(
    store: DefinitionStore, owing: DefinitionLog, disk: Disk
) -> None:
    """The client gets the error; the deletion is written ahead of the next change, so that its name can be used
    again."""
    gone = list[int]()
    deleted = owing.erase(delete(QueueRow, id=1), gone=lambda: gone.append(1))
    again = owing.write(Put(ROW._replace(id=2)))
    await owing.flush()
    assert await settled(deleted, again) == [FULL, FULL]
    assert gone == []
    disk.full = False
    again = owing.write(Put(ROW._replace(id=3)))
    await owing.flush()
    assert await settled(again) == ["written"]
    assert gone == [1]
    assert store.load().queues == (ROW._replace(id=3),)
    assert store.load().tombstones == {1}


async def test_what_is_owed_is_written_when_nobody_asks_for_anything(
    store: DefinitionStore, owing: DefinitionLog, disk: Disk, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(definition_writer, "RETRY_SECONDS", 0.01)
    gone = trio.Event()
    nursery.start_soon(owing.run)
    assert await settled(owing.erase(delete(QueueRow, id=1), gone=gone.set)) == [FULL]
    await eventually(lambda: len(disk.sizes) >= 4, "more attempts")
    assert not gone.is_set()
    disk.full = False
    with trio.fail_after(30):
        await gone.wait()
    assert store.load().queues == ()


async def test_a_binding_that_is_made_again_outlives_the_end_it_was_owed(
    store: DefinitionStore, owing: DefinitionLog, disk: Disk
) -> None:
    binding = changes.BindingRow("v", "amq.fanout", "q", "queue", "", b"\0\0\0\0")
    removed = owing.erase(changes.delete(changes.BindingRow, **binding._asdict()))
    await owing.flush()
    assert await settled(removed) == [FULL]
    disk.full = False
    made = owing.write(changes.Put(binding))
    await owing.flush()
    assert await settled(made) == ["written"]
    await owing.flush()
    assert store.load().bindings == (binding,)
