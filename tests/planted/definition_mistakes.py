"""Mistakes in what becomes of definitions: answered before they are written, not synced, ids given again.

Offsets that groups commit in streams are among them: lost, of another time, of another stream.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from broker.admin.administration import Administration
from broker.admin.definitions import group_offsets
from broker.entities.queues.streams.stream_queue import CommittedOffset, Stream
from broker.entities.scheduling.future import Future
from broker.server import recovery
from broker.server.definition_writer import DefinitionLog
from storage.definitions.definition_rows import BindingRow, Change, ExchangeRow, Put, QueueRow, StreamOffsetRow
from storage.definitions.definition_store import DefinitionStore
from tests.planted.mistake import BrokerCrashes, Patch, Process, Simulation, mistake

RESTARTS = Process("tests/durability/restart/test_committed_offsets.py")
CRASHES = BrokerCrashes(r"offset (clicks|views) (billing|search) is ", (6,), offsets=True)


def _declares(change: Change) -> bool:
    return isinstance(change, Put) and isinstance(change.row, BindingRow | ExchangeRow | QueueRow)


@mistake("I5", Simulation(1))
def declare_ok_before_commit(patch: Patch) -> None:
    """Answer declarations and bindings at once, and write them then."""
    write = DefinitionLog.write

    def write_later(log: DefinitionLog, *changes: Change) -> Future[None]:
        pending = write(log, *changes)
        return Future.resolved(None) if all(map(_declares, changes)) else pending

    patch(DefinitionLog, "write", write_later)


@mistake("I5", BrokerCrashes(r"not \[None\]", (6,)))
def delete_ok_before_commit(patch: Patch) -> None:
    """Answer deletions and unbindings at once, and write them then."""
    erase = DefinitionLog.erase

    def erase_later(log: DefinitionLog, *deletions: Change, gone: Callable[[], None] | None = None) -> Future[None]:
        erase(log, *deletions, gone=gone)
        return Future.resolved(None)

    patch(DefinitionLog, "erase", erase_later)


@mistake("I5", BrokerCrashes(r"is None, not \[True", (6,)))
def definitions_in_normal_mode(patch: Patch) -> None:
    """Have SQLite sync its log only when it is moved into the file."""
    connect = DefinitionStore._connect

    async def connect_and_relax(store: DefinitionStore) -> None:
        await connect(store)
        await store._rows("PRAGMA synchronous = NORMAL")

    patch(DefinitionStore, "_connect", connect_and_relax)


@mistake("I5", BrokerCrashes(steps=(6,)))
def lone_change_answered_before_commit(patch: Patch) -> None:
    """Answer a change that the event loop writes, and write it then."""
    write_alone = DefinitionLog.write_alone

    def answer_and_write(log: DefinitionLog) -> None:
        if len(log.waiting) == 1:
            (group,) = log.waiting
            log.waiting = [group._replace(future=Future())]
            group.future.resolve(None)
        write_alone(log)

    patch(DefinitionLog, "write_alone", answer_and_write)


@mistake("I5", BrokerCrashes(steps=(6,)))
def lone_change_without_a_sync(patch: Patch) -> None:
    """Have SQLite not sync what the event loop writes."""
    commit_at_once = DefinitionStore.commit_at_once

    def commit_without_a_sync(store: DefinitionStore, changes: Sequence[Change]) -> bool:
        store._sqlite.execute("PRAGMA synchronous = NORMAL")
        try:
            return commit_at_once(store, changes)
        finally:
            store._sqlite.execute("PRAGMA synchronous = FULL")

    patch(DefinitionStore, "commit_at_once", commit_without_a_sync)


@mistake("ids: that of a deleted queue is never given again", Simulation(5))
def id_of_a_deleted_queue(patch: Patch) -> None:
    """Count, at a start, from the highest id of the definitions that are there."""

    async def highest_living(store: DefinitionStore) -> int:
        found = await store._rows("SELECT max(id) FROM queues UNION ALL SELECT max(queue_id) FROM exchanges")
        return max((number for (number,) in found if number is not None), default=0)

    patch(DefinitionStore, "_queue_id_sequence", highest_living)


@mistake("I5", RESTARTS, CRASHES)
def offsets_in_memory_alone(patch: Patch) -> None:
    """Note committed offsets, and write none of them."""
    write = DefinitionLog.write

    def write_others(log: DefinitionLog, *changes: Change) -> Future[None]:
        kept = [each for each in changes if not (isinstance(each, Put) and isinstance(each.row, StreamOffsetRow))]
        return write(log, *kept) if kept else Future.resolved(None)

    patch(DefinitionLog, "write", write_others)


@mistake("I5", RESTARTS)
def offsets_not_read_at_a_start(patch: Patch) -> None:
    """Leave committed offsets on the disk at a start."""
    patch(recovery, "_restore_stream_offsets", lambda broker, found: None)


@mistake("I5", CRASHES)
def offsets_answered_before_commit(patch: Patch) -> None:
    """Answer a commit of offsets at once, and write them then."""

    async def answer_and_write(
        administration: Administration, changes: Sequence[Change], then: Callable[[None], Future[None]]
    ) -> None:
        administration.definitions.write(*changes).chain(then)

    patch(group_offsets, "_written", answer_and_write)


@mistake("I5", RESTARTS, CRASHES)
def offsets_written_one_late(patch: Patch) -> None:
    """Write the offset that a group has committed before: after a start it has gone backwards."""
    write = DefinitionLog.write
    before: dict[tuple[int, str], StreamOffsetRow] = {}

    def older(change: Change) -> Change:
        if not (isinstance(change, Put) and isinstance(change.row, StreamOffsetRow)):
            return change
        place = change.row.queue_id, change.row.group
        late, before[place] = before.get(place, change.row), change.row
        return Put(late)

    patch(DefinitionLog, "write", lambda log, *changes: write(log, *map(older, changes)))


@mistake("I5", RESTARTS)
def offsets_of_an_earlier_stream(patch: Patch) -> None:
    """Have a stream that is declared again take over the offsets that were committed in the one before it."""
    begin = Stream.__init__
    earlier: dict[str, dict[str, CommittedOffset]] = {}

    def begin_with_those(stream: Stream, *said: Any, **named: Any) -> None:
        begin(stream, *said, **named)
        stream.committed = earlier.setdefault(stream.name, stream.committed)

    patch(Stream, "__init__", begin_with_those)


@mistake("I5", BrokerCrashes("stream_offsets|KeyError", (6,), offsets=True))
def offsets_outlive_their_stream(patch: Patch) -> None:
    """Have SQLite keep the offsets of streams that are deleted."""
    connect = DefinitionStore._connect

    async def connect_without_cascades(store: DefinitionStore) -> None:
        await connect(store)
        await store._rows("PRAGMA foreign_keys = OFF")

    patch(DefinitionStore, "_connect", connect_without_cascades)
