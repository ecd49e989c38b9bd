"""Lone changes of definitions: the event loop writes them at the end of a turn, or leaves them to a thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

import pytest
import trio
import trio.testing

from broker.entities.queues.events.event_recording import DELETE, Recorder
from broker.server.commits.lone_changes import APART_SECONDS, BYTES_MAX, CHANGES_MAX, LoneChanges
from broker.server.commits.quick_disk import FRESH_SECONDS, QUICK_SECONDS, QUICK_WRITES_MIN
from broker.server.definition_writer import DefinitionLog
from broker.wire.amqp_errors import ConnectionException
from harness.brokers.broker_server import eventually
from storage.definitions import definition_store
from storage.definitions.definition_rows import PermissionRow, Put, QueueRow, VhostRow, delete
from storage.definitions.definition_store import DefinitionStore

V, W = Put(VhostRow("v")), Put(VhostRow("w"))
IMPOSSIBLE = Put(PermissionRow("nobody", "nowhere", "", "", ""))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DefinitionStore]:
    with DefinitionStore.open(tmp_path / "definitions.sqlite") as store:
        yield store


@pytest.fixture
def log(store: DefinitionStore) -> DefinitionLog:
    """A log whose thread does not run, on a disk that has been quick."""
    return quick(DefinitionLog(store, 0, lambda: None))


def quick(log: DefinitionLog) -> DefinitionLog:
    for _ in range(QUICK_WRITES_MIN):
        log.policy.disk.wrote(0.0, perf_counter())
    return log


def end_of_turn(log: DefinitionLog) -> None:
    """As the engine ends a turn in which something was asked for."""
    assert log.waiting
    log.write_alone()


def names(store: DefinitionStore) -> list[str]:
    return [row.name for row in store.load().vhosts]


def test_a_lone_change_is_on_disk_and_answered_when_its_turn_ends(log: DefinitionLog, store: DefinitionStore) -> None:
    future = log.write(V)
    assert not future.done
    end_of_turn(log)
    assert future.done
    assert names(store) == ["v"]
    assert not log.waiting


async def test_changes_of_several_clients_share_a_transaction(log: DefinitionLog, store: DefinitionStore) -> None:
    futures = [log.write(V), log.write(W)]
    end_of_turn(log)
    assert [future.done for future in futures] == [False, False]
    await log.flush()
    assert names(store) == ["v", "w"]


async def test_what_the_store_refuses_is_answered_by_the_thread(log: DefinitionLog) -> None:
    refused = log.write(IMPOSSIBLE)
    end_of_turn(log)
    assert not refused.done
    await log.flush()
    with pytest.raises(ConnectionException, match="FOREIGN KEY"):
        refused.result()
    later = log.write(V)
    end_of_turn(log)
    assert not later.done, "after an error the disk counts as slow"


async def test_no_change_overtakes_one_that_a_thread_is_writing(
    log: DefinitionLog, store: DefinitionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, begun, go_on = store.commit, threading.Event(), threading.Event()

    def slowly(changes: list[Put]) -> None:
        begun.set()
        assert go_on.wait(30), "nobody let it go on"
        commit(changes)

    monkeypatch.setattr(store, "commit", slowly)
    first = log.write(V)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(log.flush)
        await trio.to_thread.run_sync(begun.wait)
        second = log.write(delete(VhostRow, name="v"))
        end_of_turn(log)
        assert not second.done
        go_on.set()
    assert first.done
    assert second.done
    assert names(store) == []


def test_a_store_that_another_thread_uses_is_not_waited_for(log: DefinitionLog, store: DefinitionStore) -> None:
    future = log.write(V)
    with store._using:
        end_of_turn(log)
    assert not future.done
    end_of_turn(log)
    assert future.done


def test_dropped_tombstones_are_written_before_a_lone_change(log: DefinitionLog, store: DefinitionStore) -> None:
    """A queue that was brought back with the id of a deleted one is not refused, and keeps its later tombstone."""
    row = QueueRow(1, "v", "q", False, b"\0\0\0\0")
    store.commit([V, Put(row), delete(QueueRow, id=1)])
    log.drop_tombstones([1])
    future = log.write(Put(row))
    end_of_turn(log)
    assert future.done
    assert (store.load().queues, store.load().tombstones) == ((row,), frozenset())


async def test_dropped_tombstones_need_no_other_change(log: DefinitionLog, store: DefinitionStore) -> None:
    store.commit([V, Put(QueueRow(1, "v", "q", False, b"\0\0\0\0")), delete(QueueRow, id=1)])
    log.drop_tombstones([1])
    await log.flush()
    assert store.load().tombstones == frozenset()


def test_events_are_recorded_before_a_lone_change_is_written(store: DefinitionStore) -> None:
    on_disk: list[list[str]] = []
    recorder = Recorder(1, lambda records, first, events: on_disk.append(names(store)), lambda: None)
    log = quick(DefinitionLog(store, 0, lambda: None, recorder))
    recorder.add(DELETE, 1)
    log.write(V)
    end_of_turn(log)
    assert on_disk == [[]]
    assert names(store) == ["v"]


async def test_the_thread_moves_the_log_of_sqlite_into_its_file(
    log: DefinitionLog, store: DefinitionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop never does. The first time the log gets its full size, and does not grow any more."""
    monkeypatch.setattr(definition_store, "CHECKPOINT_COMMITS", 3)
    wal, sizes = store.path.with_name(f"{store.path.name}-wal"), list[int]()
    for _round in range(3):
        while not store.wants_checkpoint:
            at_once = log.write(V)
            end_of_turn(quick(log))
            assert at_once.done
            log.policy.answered(0.0)
        later = log.write(V)
        end_of_turn(quick(log))
        assert not later.done
        await log.flush()
        assert later.done
        assert not store.wants_checkpoint
        sizes.append(wal.stat().st_size)
        log.policy.answered(0.0)
    assert sizes == [definition_store.LOG_BYTES] * 3


def test_who_writes_a_change() -> None:
    policy = LoneChanges()
    now = 100.0
    assert not policy.loop_writes(1, [V], now), "nothing is known of the disk yet"
    for _ in range(QUICK_WRITES_MIN):
        policy.disk.wrote(QUICK_SECONDS / 2, now)
    assert policy.loop_writes(1, [V], now)
    assert not policy.loop_writes(2, [V], now), "two clients wait"
    assert not policy.loop_writes(0, [V], now), "nobody waits"
    assert not policy.loop_writes(1, [V] * (CHANGES_MAX + 1), now)
    assert not policy.loop_writes(1, [Put(VhostRow("v", "d" * BYTES_MAX))], now)
    policy.answered(now)
    assert not policy.loop_writes(1, [V], now + APART_SECONDS / 2), "another client was ready meanwhile"
    assert policy.loop_writes(1, [V], now + 2 * APART_SECONDS)
    assert not policy.loop_writes(1, [V], now + 2 * FRESH_SECONDS), "the disk was quick long ago, and may hang by now"
    policy.disk.wrote(2 * QUICK_SECONDS, now)
    assert not policy.loop_writes(1, [V], now + 1), "the disk is slow"


async def test_a_flush_by_another_task_does_not_put_the_writer_to_sleep(
    log: DefinitionLog, store: DefinitionStore
) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(log.run)
        await trio.testing.wait_all_tasks_blocked()
        await log.flush()
        future = log.write(V)
        await eventually(lambda: future.done, "the change to be written")
        nursery.cancel_scope.cancel()
