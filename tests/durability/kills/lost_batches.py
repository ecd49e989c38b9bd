"""A disk that has not kept what it said it had: the last batches before a kill are lost."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from storage.definitions.definition_store import DefinitionStore
from storage.high_water import HighWaterFile, read_high_water
from storage.journal.journal import HIGH_WATER
from storage.journal.journal_file import HEADER, MAGIC, NAME, PAGE_BYTES, RING_AT
from storage.messages.lmdb_environment import check_identity, open_environment
from storage.messages.start.journal_replay import UnappliedBatches, unapplied_in_journal

Place = tuple[str, int]
"""A queue, and a position in it."""

BATCHES = 5


def lose_last_batches(data: Path) -> set[Place]:
    """Take the last batches out of a killed broker's journal: the messages that would be there otherwise.

    A disk that lies has lost the high-water mark with them, else the start would be refused.
    """
    path, before = data / "messages", _left(data)
    kept = max(0, before.mark.position.number - BATCHES)  # a busy machine may have got no further than the first few
    with (path / NAME).open("r+b") as file:
        for at in range(RING_AT, file.seek(0, 2), PAGE_BYTES):
            file.seek(at)
            head = file.read(HEADER.size)
            if head.startswith(MAGIC) and HEADER.unpack(head)[3] > kept:
                file.seek(at)
                file.write(bytes(len(MAGIC)))
    _forget(path, kept)
    return _put(data, before) - _put(data, _left(data))


def _forget(path: Path, number: int) -> None:
    reached = read_high_water(path / HIGH_WATER)
    if reached is not None:
        with closing(HighWaterFile(path / HIGH_WATER)) as high_water:
            high_water.note(reached.owner, reached.boot, min(reached.number, number))


def _left(data: Path) -> UnappliedBatches:
    directory = data / "messages"
    identity = check_identity(directory, None)
    with open_environment(directory, readonly=True) as environment:
        return unapplied_in_journal(directory, environment, identity)


def _put(data: Path, left: UnappliedBatches) -> set[Place]:
    store = DefinitionStore.open(data / "definitions.sqlite", create=False)
    found = store.load()
    store.close()
    names = {queue.id: queue.name for queue in found.queues}
    names |= {exchange.queue_id: f"delayed by exchange {exchange.name}" for exchange in found.exchanges}
    return {(names[lane.queue_id], position) for lane in left.writes.sealed().lanes for position, _ in lane.puts}
