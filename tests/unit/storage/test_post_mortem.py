"""Reading a store that nobody has open: everything that is live, nothing that is not, and not a byte changed."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from storage.messages import lmdb_environment
from storage.messages.keys import SEGMENT
from storage.messages.message_store import MessageStore
from storage.offline.offline_reader import Found, Range, StoppedStore, definitions_of
from storage.storage_errors import StoreCorrupt, StoreError, StoreIncompatible
from tests.unit.storage.writing import END, Writer

QUEUE = 7


def put(path: Path, *flushes: list[bytes]) -> list[int]:
    """Messages in a queue, a segment for each flush; their positions."""
    with MessageStore.open(path) as store:
        writer, positions = Writer(store), list[int]()
        for bodies in flushes:
            positions += writer.puts(QUEUE, bodies)
            writer.flush()
        return positions


def found(store: StoppedStore, part: Range | None = None) -> list[Found]:
    return list(store.messages(part or Range(QUEUE, 0, 0, END)))


def bodies(messages: list[Found]) -> list[bytes]:
    return [each.message.body for each in messages if each.message is not None]


def test_live_messages_are_found_and_settled_ones_are_not(path: Path) -> None:
    with MessageStore.open(path) as store:
        writer = Writer(store)
        first, second, *_ = writer.puts(QUEUE, [b"a", b"b", b"c"])
        writer.flush()
        writer.settle(QUEUE, first)
        writer.delivered(QUEUE, second)
        writer.put(8, b"of another")
        writer.flush()
        writer.delete(8)
        writer.flush()
    with StoppedStore(path) as stopped:
        messages = found(stopped)
        assert bodies(messages) == [b"b", b"c"]
        assert [each.delivered for each in messages] == [True, False]
        assert [(lane.queue_id, lane.messages, lane.bytes, lane.oldest) for lane in stopped.lanes()] == [
            (QUEUE, 2, 2, second)
        ]


def test_damage_is_told_and_costs_nothing_else(path: Path) -> None:
    positions = put(path, [b"a", b"b"], [b"c"], [b"d"])
    with lmdb_environment.open_environment(path) as environment, environment.begin(write=True) as txn:
        first, second, _ = [(key, value) for key, value in txn.cursor() if key.startswith(SEGMENT)]
        txn.put(first[0], first[1][:-1] + b"!")
        txn.put(second[0], second[1][:10] + b"!" + second[1][11:])
    with StoppedStore(path) as stopped:
        messages = found(stopped)
    assert bodies(messages) == [b"a", b"d"]
    damage = [(each.damage.position, each.damage.reason, each.damage.whole_segment) for each in messages if each.damage]
    assert damage == [
        (positions[1], "a message fails its checksum", False),
        (positions[2], "the index of a segment of 1 messages fails its checksum", True),
    ]


def test_nothing_is_written_and_no_lock_is_made(path: Path) -> None:
    put(path, [b"a"])
    for lock in (path / "lock.mdb", path.with_name("messages.lock")):
        lock.unlink()
    before = hashlib.sha256((path / "data.mdb").read_bytes()).digest()
    with StoppedStore(path) as stopped:
        assert bodies(found(stopped)) == [b"a"]
    assert hashlib.sha256((path / "data.mdb").read_bytes()).digest() == before
    assert [file.name for file in path.parent.iterdir()] == ["messages"]
    assert [file.name for file in path.iterdir() if file.name not in ("ballast", "journal.end")] == ["data.mdb"]


def test_pages_that_cannot_be_read_are_an_error_of_the_store(path: Path) -> None:
    put(path, *([b"x" * 3000] for _ in range(50)))
    data = path / "data.mdb"
    whole = data.read_bytes()
    data.write_bytes(whole[: 2 * 4096] + bytes(len(whole) - 2 * 4096))
    with pytest.raises((StoreCorrupt, StoreIncompatible)):
        with StoppedStore(path) as stopped:
            found(stopped)


def test_definitions_that_cannot_be_read_are_an_error_of_the_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is missing"):
        definitions_of(tmp_path / "definitions.sqlite")
