"""Changes of definitions on their way to SQLite: in order, grouped while a transaction runs, each with its own fate."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import trio
import trio.testing

from broker.entities.scheduling.future import Future
from broker.server import definition_writer
from broker.server.definition_writer import DefinitionLog
from broker.wire.amqp_errors import ConnectionException
from harness.brokers.broker_server import eventually
from storage.batch import TRANSIENT_QUEUE
from storage.definitions.definition_changes import (
    BindingRow,
    Change,
    DeleteBinding,
    DeleteQueue,
    PermissionRow,
    PutBinding,
    PutPermission,
    PutQueue,
    PutUser,
    PutVhost,
    QueueRow,
    UserRow,
    VhostRow,
)
from storage.definitions.definition_store import DefinitionsFull, DefinitionStore


class Watched:
    """The store's commits: how many changes each brought. With it closed, a commit that has begun does not end."""

    def __init__(self, store: DefinitionStore, patch: pytest.MonkeyPatch) -> None:
        self.sizes: list[int] = []
        self._commit = store.commit
        self._open = threading.Event()
        self._open.set()
        self.begun = threading.Semaphore(0)
        patch.setattr(store, "commit", self._watched_commit)

    def _watched_commit(self, changes: Sequence[Change]) -> None:
        self.sizes.append(len(changes))
        self.begun.release()
        assert self._open.wait(30), "nobody opened it"
        self._commit(changes)

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
def watched(store: DefinitionStore, monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(store, monkeypatch)


def vhost(name: str) -> PutVhost:
    return PutVhost(VhostRow(name))


IMPOSSIBLE = PutPermission(PermissionRow("nobody", "nowhere", "", "", ""))
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


async def test_a_change_is_answered_when_it_is_on_disk(
    store: DefinitionStore, watched: Watched, nursery: trio.Nursery
) -> None:
    told: list[str] = []
    log = DefinitionLog(store, 0, lambda: told.append("after the answers"))
    nursery.start_soon(log.run)
    watched.close()
    future = log.write(vhost("v"))
    future.then(lambda _: told.append("answered"))
    await watched.await_commit()
    assert not future.done
    watched.open()
    assert await settled(future) == ["written"]
    await log.flush()
    assert told == ["answered", "after the answers"]
    assert names(store) == ["v"]


async def test_what_gathers_during_a_transaction_is_the_next(
    store: DefinitionStore, watched: Watched, nursery: trio.Nursery
) -> None:
    log = DefinitionLog(store, 0, nobody_sleeps)
    nursery.start_soon(log.run)
    watched.close()
    first = log.write(vhost("first"))
    await watched.await_commit()
    others = [log.write(vhost(f"v{number:02}")) for number in range(30)]
    watched.open()
    assert await settled(first, *others) == ["written"] * 31
    assert watched.sizes == [1, 30]
    assert names(store) == ["first", *(f"v{number:02}" for number in range(30))]


async def test_one_failure_is_not_the_others(store: DefinitionStore, watched: Watched) -> None:
    """Changes written together are tried one by one when they fail together: 506 for whose it is, and nobody else."""
    log = DefinitionLog(store, 0, nobody_sleeps)
    futures = [log.write(vhost("a")), log.write(IMPOSSIBLE), log.write(vhost("b"))]
    await log.flush()
    assert await settled(*futures) == ["written", "506 FOREIGN KEY constraint failed", "written"]
    assert watched.sizes == [3, 1, 1, 1]
    assert names(store) == ["a", "b"]


async def test_changes_of_one_group_are_made_together_or_not_at_all(store: DefinitionStore) -> None:
    log = DefinitionLog(store, 0, nobody_sleeps)
    failing, fine = log.write(vhost("half"), IMPOSSIBLE), log.write(vhost("v"), PutUser(UserRow("u", "", "")))
    await log.flush()
    assert [how[:3] for how in await settled(failing, fine)] == ["506", "wri"]
    assert names(store) == ["v"]


async def test_order_holds_when_changes_are_tried_one_by_one(store: DefinitionStore) -> None:
    """A deletion after a creation deletes, also when a third change made both start over."""
    log = DefinitionLog(store, 0, nobody_sleeps)
    row = QueueRow(log.new_queue_id(), "v", "q", False, b"\0\0\0\0")
    futures = [log.write(change) for change in (vhost("v"), PutQueue(row), IMPOSSIBLE, DeleteQueue(row.id))]
    await log.flush()
    await settled(*futures)
    assert store.load().queues == ()
    assert store.load().tombstones == {row.id}


async def test_what_an_answer_causes_is_written_too(store: DefinitionStore) -> None:
    log = DefinitionLog(store, 0, nobody_sleeps)
    both = log.write(vhost("one")).chain(lambda _: log.write(vhost("two")))
    await log.flush()
    assert both.done
    assert names(store) == ["one", "two"]


async def test_flushing_waits_for_what_another_task_is_writing(
    store: DefinitionStore, watched: Watched, nursery: trio.Nursery
) -> None:
    log = DefinitionLog(store, 0, nobody_sleeps)
    nursery.start_soon(log.run)
    watched.close()
    future = log.write(vhost("v"))
    await watched.await_commit()
    flushed: list[bool] = []

    async def flush() -> None:
        await log.flush()
        flushed.append(future.done)

    nursery.start_soon(flush)
    await trio.testing.wait_all_tasks_blocked()
    assert flushed == []
    watched.open()
    await settled(future)
    await trio.testing.wait_all_tasks_blocked()
    assert flushed == [True]


async def test_a_cancelled_writer_finishes_what_it_has_begun(store: DefinitionStore, watched: Watched) -> None:
    log = DefinitionLog(store, 0, nobody_sleeps)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(log.run)
        watched.close()
        future = log.write(vhost("v"))
        await watched.await_commit()
        nursery.cancel_scope.cancel()
        watched.open()
    assert future.done
    assert names(store) == ["v"]


async def test_tombstones_go_when_the_messages_have_gone(store: DefinitionStore) -> None:
    """Those of queues that end with the process have none, and nothing is written for them."""
    log = DefinitionLog(store, 0, nobody_sleeps)
    rows = [QueueRow(log.new_queue_id(), "v", name, False, b"\0\0\0\0") for name in ("one", "two")]
    log.write(vhost("v"), *map(PutQueue, rows))
    log.write(*(DeleteQueue(row.id) for row in rows))
    await log.flush()
    assert store.load().tombstones == {1, 2}
    log.drop_tombstones([2, TRANSIENT_QUEUE])
    await log.flush()
    assert store.load().tombstones == {1}


async def test_nothing_is_written_for_transient_queues(store: DefinitionStore, watched: Watched) -> None:
    log = DefinitionLog(store, 0, nobody_sleeps)
    log.drop_tombstones([TRANSIENT_QUEUE, TRANSIENT_QUEUE + 1])
    await log.flush()
    assert watched.sizes == []


async def test_queue_ids_go_on_where_both_stores_stopped(store: DefinitionStore) -> None:
    log = DefinitionLog(store, 41, nobody_sleeps)
    assert [log.new_queue_id(), log.new_queue_id()] == [42, 43]


async def test_loading_waits_its_turn(store: DefinitionStore, watched: Watched) -> None:
    log = DefinitionLog(store, 0, nobody_sleeps)
    watched.close()
    log.write(vhost("v"))
    seen: list[str] = []

    async def load() -> None:
        seen.extend(row.name for row in (await log.load()).vhosts)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(log.flush)
        await watched.await_commit()
        nursery.start_soon(load)
        await trio.testing.wait_all_tasks_blocked()
        assert seen == []
        watched.open()
    assert seen == ["v"]


class Broken:
    """A store of which every commit fails while it is broken."""

    def __init__(self, store: DefinitionStore, patch: pytest.MonkeyPatch) -> None:
        self.broken = True
        self.tried = 0
        self._commit = store.commit
        patch.setattr(store, "commit", self._maybe)

    def _maybe(self, changes: Sequence[Change]) -> None:
        self.tried += 1
        if self.broken:
            raise DefinitionsFull("definitions.sqlite: the disk is full")
        self._commit(changes)


@pytest.fixture
def broken(store: DefinitionStore, monkeypatch: pytest.MonkeyPatch) -> Broken:
    store.commit([vhost("v"), PutQueue(ROW)])
    return Broken(store, monkeypatch)


ROW = QueueRow(1, "v", "q", False, b"\0\0\0\0")
FULL = "506 the disk is full"


async def test_a_deletion_that_cannot_be_written_is_owed(store: DefinitionStore, broken: Broken) -> None:
    """Whoever asked is told, and it is written ahead of what comes next: so its name can be used again."""
    log, gone = DefinitionLog(store, 1, nobody_sleeps), []
    deleted = log.erase(DeleteQueue(1), gone=lambda: gone.append(1))
    again = log.write(PutQueue(ROW._replace(id=2)))
    await log.flush()
    assert await settled(deleted, again) == [FULL, FULL]
    assert gone == []
    broken.broken = False
    again = log.write(PutQueue(ROW._replace(id=3)))
    await log.flush()
    assert await settled(again) == ["written"]
    assert gone == [1]
    assert store.load().queues == (ROW._replace(id=3),)
    assert store.load().tombstones == {1}


async def test_what_is_owed_is_written_when_nobody_asks_for_anything(
    store: DefinitionStore, broken: Broken, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(definition_writer, "RETRY_SECONDS", 0.01)
    log, gone = DefinitionLog(store, 1, nobody_sleeps), trio.Event()
    nursery.start_soon(log.run)
    assert await settled(log.erase(DeleteQueue(1), gone=gone.set)) == [FULL]
    await eventually(lambda: broken.tried >= 3, "more attempts")
    assert not gone.is_set()
    broken.broken = False
    with trio.fail_after(30):
        await gone.wait()
    assert store.load().queues == ()


async def test_a_binding_that_is_made_again_outlives_the_end_it_was_owed(
    store: DefinitionStore, broken: Broken
) -> None:
    log, binding = DefinitionLog(store, 1, nobody_sleeps), BindingRow("v", "amq.fanout", "q", "queue", "", b"\0\0\0\0")
    removed = log.erase(DeleteBinding(binding))
    await log.flush()
    assert await settled(removed) == [FULL]
    broken.broken = False
    made = log.write(PutBinding(binding))
    await log.flush()
    assert await settled(made) == ["written"]
    await log.flush()
    assert store.load().bindings == (binding,)
