"""A disk that has not kept what it said it had: the last batches before a kill are lost."""

from __future__ import annotations

from pathlib import Path

from storage.definitions.definition_store import DefinitionStore
from storage.journal.journal_file import MAGIC, NAME, PAGE_BYTES
from storage.messages.journal_replay import Left, left_in_journal
from storage.messages.lmdb_environment import check_identity, open_environment

Place = tuple[str, int]
"""A queue, and a position in it."""

BATCHES = 5
NUMBER_AT = slice(28, 36)
"""Where a record of the journal has its number."""


def lose_last_batches(data: Path) -> set[Place]:
    """Take the last batches out of a killed broker's journal: the messages that would be there otherwise."""
    path, before = data / "messages", _left(data)
    with (path / NAME).open("r+b") as file:
        for at in range(0, file.seek(0, 2), PAGE_BYTES):
            file.seek(at)
            page = file.read(NUMBER_AT.stop)
            if page.startswith(MAGIC) and int.from_bytes(page[NUMBER_AT], "big") > before.number - BATCHES:
                file.seek(at)
                file.write(bytes(len(MAGIC)))
    return _put(data, before) - _put(data, _left(data))


def _left(data: Path) -> Left:
    directory = data / "messages"
    identity = check_identity(directory, None)
    with open_environment(directory, readonly=True) as environment:
        return left_in_journal(directory, environment, identity)


def _put(data: Path, left: Left) -> set[Place]:
    store = DefinitionStore.open(data / "definitions.sqlite", create=False)
    found = store.load()
    store.close()
    names = {queue.id: queue.name for queue in found.queues}
    names |= {exchange.queue_id: f"delayed by exchange {exchange.name}" for exchange in found.exchanges}
    return {(names[lane.queue_id], position) for lane in left.writes.sealed().lanes for position, _ in lane.puts}
