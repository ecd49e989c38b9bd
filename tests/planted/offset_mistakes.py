"""Mistakes in what becomes of the offsets that groups commit in streams: lost, answered too early, of another time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from broker.admin.administration import Administration
from broker.admin.definitions import group_offsets
from broker.entities.queues.streams.stream_queue import CommittedOffset, Stream
from broker.entities.scheduling.future import Future
from broker.server import recovery
from broker.server.definition_writer import DefinitionLog
from storage.definitions.definition_rows import Change, Put, StreamOffsetRow
from storage.definitions.definition_store import DefinitionStore
from tests.planted.mistake import BrokerCrashes, Patch, Process, mistake

RESTARTS = Process("tests/durability/restart/test_committed_offsets.py")
CRASHES = BrokerCrashes(r"offset (clicks|views) (billing|search) is ", (6,), offsets=True)


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
