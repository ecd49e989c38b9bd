"""The definitions store, on real files."""

from __future__ import annotations

import logging
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from harness.brokers.full_disk import no_file_larger_than
from storage.definitions import definition_rows as changes
from storage.definitions.change_count import HIGH_WATER
from storage.definitions.definition_rows import Change, Definitions, Put, QueueRow, delete
from storage.definitions.definition_store import DefinitionsError, DefinitionsFull, DefinitionStore
from storage.storage_errors import StoreIncomplete
from tests.unit.storage.writing import contents

VHOST = changes.VhostRow("v", "for tests", ("one", "two"), "classic", True)
USER = changes.UserRow("u", "hash", "rabbit_password_hashing_sha256", ("administrator",))
PERMISSION = changes.PermissionRow("u", "v", ".*", "^a", "")
TOPIC = changes.TopicPermissionRow("u", "v", "amq.topic", "w", "r")
EXCHANGE = changes.ExchangeRow("v", "x", "topic", True, False, b"\0\0\0\0")
QUEUE = changes.QueueRow(1, "v", "q of any bytes \udcff\0", False, b"\0\0\0\5args")
BINDING = changes.BindingRow("v", "x", "q", "queue", "a.#", b"\0\0\0\0")
POLICY = changes.PolicyRow("v", "p", "^q", "queues", '{"max-length": 3}', 7)
PARAMETER = changes.ParameterRow("v", "shovel", "s", '"value"')
GLOBAL = changes.GlobalParameterRow("cluster_name", '"here"')
VHOST_LIMIT = changes.VhostLimitRow("v", "max-queues", -1)
USER_LIMIT = changes.UserLimitRow("u", "max-channels", 5)
OFFSET = changes.StreamOffsetRow(1, "g", 1000, 1_764_357_483_000)

EVERYTHING: list[Change] = [
    Put(VHOST),
    changes.Put(USER),
    changes.Put(PERMISSION),
    changes.Put(TOPIC),
    Put(EXCHANGE),
    Put(QUEUE),
    changes.Put(BINDING),
    changes.Put(POLICY),
    changes.Put(PARAMETER),
    changes.Put(GLOBAL),
    changes.Put(VHOST_LIMIT),
    changes.Put(USER_LIMIT),
    changes.Put(OFFSET),
]
ROW_FIELDS = Definitions._fields[:13]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "definitions.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[DefinitionStore]:
    with DefinitionStore.open(path) as opened:
        yield opened


def reopened(store: DefinitionStore) -> Definitions:
    """Return the definitions that a new process would find."""
    store.close()
    with DefinitionStore.open(store.path) as again:
        return again.load()


def found(definitions: Definitions) -> dict[str, Any]:
    """The kinds of rows that there are any of."""
    return {name: getattr(definitions, name) for name in ROW_FIELDS if getattr(definitions, name)}


def with_everything(store: DefinitionStore, *more: Change) -> Definitions:
    store.commit([*EVERYTHING, *more])
    return store.load()


def test_every_kind_of_row_comes_back_as_it_was_put(store: DefinitionStore) -> None:
    assert found(store.load()) == {}
    store.commit(EVERYTHING)
    loaded = reopened(store)
    rows, put = [row for name in ROW_FIELDS for row in getattr(loaded, name)], [row for (row,) in EVERYTHING]
    assert rows == put
    assert [type(row) for row in rows] == [type(row) for row in put]


def test_bindings_differ_by_every_field(store: DefinitionStore) -> None:
    """They come in the order of their creation. An exchange takes those to it, not those of a queue with its name."""
    different = [BINDING._replace(**{field: "exchange"}) for field in ("source", "destination_kind", "routing_key")]
    different.append(BINDING._replace(arguments=b"\0\0\0\1"))
    to_exchange, to_queue = (changes.BindingRow("v", "src", "x", kind, "", b"") for kind in ("exchange", "queue"))
    elsewhere = changes.BindingRow("w", "x", "x", "exchange", "", b"")
    put = [*different, to_exchange, to_queue, elsewhere]
    loaded = with_everything(store, Put(changes.VhostRow("w")), *(changes.Put(row) for row in put))
    assert loaded.bindings == (BINDING, *put)
    store.commit([changes.delete(changes.ExchangeRow, vhost="v", name="x")])
    left = [row for row in put if row is not to_exchange and (row.vhost, row.source) != ("v", "x")]
    assert reopened(store).bindings == tuple(left)


def test_offsets_end_with_their_stream_and_with_their_group(store: DefinitionStore) -> None:
    """One in a stream that is gone by now is left out; the others of its transaction are written."""
    other, gone = OFFSET._replace(group="h"), OFFSET._replace(queue_id=7)
    again = OFFSET._replace(offset=2000)
    assert with_everything(store, Put(other), Put(gone), Put(again)).stream_offsets == (again, other)
    store.commit([delete(changes.StreamOffsetRow, queue_id=1, group="g")])
    assert store.load().stream_offsets == (other,)
    store.commit([delete(QueueRow, id=1)])
    assert reopened(store).stream_offsets == ()


# Ids and tombstones: what keeps a restart from erasing or mixing up messages.


DELAYING = EXCHANGE._replace(queue_id=1)
ENDS: dict[str, tuple[Change, Change, str]] = {
    "queue": (Put(QUEUE), delete(QueueRow, id=1), "a deleted queue"),
    "delaying exchange": (Put(DELAYING), changes.delete(changes.ExchangeRow, vhost="v", name="x"), "something deleted"),
    "its virtual host": (Put(DELAYING), changes.delete(changes.VhostRow, name="v"), "something deleted"),
}


@pytest.mark.parametrize(("put", "end", "words"), ENDS.values(), ids=list(ENDS))
def test_what_has_messages_leaves_a_tombstone_until_it_is_dropped(
    store: DefinitionStore, put: Change, end: Change, words: str
) -> None:
    """Its id is never given again, and is below that of the next queue: none that a start declares is refused."""
    store.commit([Put(VHOST), put, Put(QUEUE._replace(id=2, name="r")), delete(QueueRow, id=2)])
    store.commit([end])
    assert store.load().tombstones == {1, 2}
    store.commit([changes.DropTombstone(2)])
    with pytest.raises(DefinitionsError, match=f"this queue id belongs to {words}"):
        store.commit([Put(VHOST), put])
    assert store.load().tombstones == {1}
    store.commit([changes.DropTombstone(1)])
    loaded = reopened(store)
    assert (loaded.tombstones, loaded.queue_id_sequence) == (frozenset(), 2)


def test_the_sequence_remembers_the_highest_id_and_is_never_lowered(store: DefinitionStore) -> None:
    """After all queues are gone, too; exchanges that delay have ids of the same sequence."""
    assert store.load().queue_id_sequence == 0
    store.commit([Put(VHOST), Put(QUEUE._replace(id=41)), delete(QueueRow, id=41), changes.DropTombstone(41)])
    assert store.load().queue_id_sequence == 41
    store.lift_queue_id(100)
    assert store.load().queue_id_sequence == 100
    store.lift_queue_id(7)
    assert store.load().queue_id_sequence == 100
    store.commit([Put(QUEUE._replace(id=101)), Put(EXCHANGE._replace(queue_id=102))])
    assert reopened(store).queue_id_sequence == 102


# Transactions.


def test_a_full_disk_is_told_apart_and_the_store_goes_on(store: DefinitionStore) -> None:
    store.commit([Put(VHOST)])
    # The page limit makes SQLite answer as it does when the file system has no room left.
    store._call(store._rows, "PRAGMA max_page_count = 1")
    big = changes.Put(changes.GlobalParameterRow("big", "x" * 100_000))
    with pytest.raises(DefinitionsFull, match="disk is full"):
        store.commit([Put(changes.VhostRow("w")), big])
    store._call(store._rows, "PRAGMA max_page_count = 1000000")
    assert store.load().vhosts == (VHOST,)
    store.commit([big])
    assert len(reopened(store).global_parameters[0].value) == 100_000


def test_what_cannot_be_opened_leaves_nothing_running(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The file is there and fails the connection's own thread, which is slow to end."""
    DefinitionStore.open(path).close()
    connect, before = sqlite3.connect, threading.enumerate()

    def failing(*arguments: Any, **options: Any) -> sqlite3.Connection:
        if threading.current_thread() in before:
            return connect(*arguments, **options)
        raise sqlite3.OperationalError("unable to open database file")

    def slowly(record: logging.LogRecord) -> bool:
        if "close_and_stop" in record.getMessage() and threading.current_thread() not in before:
            threading.Event().wait(0.1)
        return True

    monkeypatch.setattr(sqlite3, "connect", failing)
    caplog.set_level(logging.DEBUG, "aiosqlite")
    monkeypatch.setattr(logging.getLogger("aiosqlite"), "filters", [slowly])
    with pytest.raises(DefinitionsError, match=f"{path}: unable to open database file"):
        DefinitionStore.open(path)
    assert set(threading.enumerate()) <= set(before)
    assert "close_and_stop" in caplog.text


def test_metadata_is_kept(store: DefinitionStore) -> None:
    assert len(store.uuid) == 16
    assert store.load().metadata == {"store_uuid": store.uuid}
    store.commit([changes.SetMetadata("clean", b"1"), changes.SetMetadata("clean", b"2")])
    counted = {"changes": (1).to_bytes(8, "big"), "base": bytes(8)}
    assert store.metadata() == reopened(store).metadata == {"store_uuid": store.uuid, "clean": b"2", **counted}


# Opening, closing, copying.


def test_a_start_after_a_crash_needs_no_room_on_the_disk(
    store: DefinitionStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new process has not looked for a temporary directory yet, and finds none that it can write to."""
    monkeypatch.setattr(tempfile, "tempdir", None)
    store.commit([Put(VHOST)])
    left = contents(path.parent)
    store.close()
    for name, data in left.items():
        path.with_name(name).write_bytes(data)
    with no_file_larger_than(0), DefinitionStore.open(path) as again:
        assert VHOST in again.load().vhosts


def test_a_backup_overwrites_nothing_and_a_closed_store_says_so(store: DefinitionStore, tmp_path: Path) -> None:
    (tmp_path / "copy.sqlite").write_text("precious")
    with pytest.raises(DefinitionsError, match="exists already"):
        store.backup(tmp_path / "copy.sqlite", bytes(16))
    assert (tmp_path / "copy.sqlite").read_text() == "precious"
    store.close()
    store.close()
    with pytest.raises(DefinitionsError, match="is closed"):
        store.load()


def test_a_mark_of_what_was_there_before_a_backup_goes_before_its_first_change(
    store: DefinitionStore, path: Path
) -> None:
    """With the first change it is no backup any more: a start that is killed then found less than the mark says."""
    store.backup(backup := path.with_name("backup.sqlite"), b"1" * 16)
    store.commit([Put(VHOST)])
    store.close()
    assert path.with_name(HIGH_WATER).exists()
    shutil.copyfile(backup, path)
    with DefinitionStore.open(path) as restored:
        with pytest.raises(DefinitionsError):
            restored.commit([changes.Put(PERMISSION)])  # of a user and a virtual host that there are not
        assert not path.with_name(HIGH_WATER).exists()


def test_rows_that_nobody_has_written_are_damage(store: DefinitionStore, path: Path) -> None:
    """A file's contents without its -wal may be half of a change."""
    store.commit(EVERYTHING)
    store.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_schema SET sql = replace(sql, 'NOT NULL', '')")
        connection.commit()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE bindings SET routing_key = NULL")
        connection.commit()
    with DefinitionStore.open(path) as opened, pytest.raises(DefinitionsError, match=r"damaged, or .*-wal is missing"):
        opened.load()


def test_the_log_of_another_store_is_refused_and_not_applied(store: DefinitionStore, path: Path) -> None:
    store.commit([Put(VHOST)])
    store.close()
    other = path.with_name("other.sqlite")
    wal = path.with_name(f"{path.name}-wal")
    with DefinitionStore.open(other) as another:
        another.commit([Put(VHOST._replace(name="theirs"))])
        shutil.copyfile(f"{other}-wal", wal)
    before = path.read_bytes(), wal.read_bytes()
    for accept_loss in (False, True):
        with pytest.raises(DefinitionsError, match="they are of different brokers"):
            DefinitionStore.open(path, accept_loss=accept_loss)
    assert (path.read_bytes(), wal.read_bytes()) == before


def test_an_older_file_beside_a_log_that_began_again_is_refused(
    store: DefinitionStore, path: Path, tmp_path: Path
) -> None:
    """SQLite would apply the log to it, and lose what an earlier log had."""
    store.commit([Put(changes.VhostRow("a"))])
    store.checkpoint()
    older = path.read_bytes()
    store.commit([Put(changes.VhostRow("b"))])
    store.checkpoint()
    store.commit([Put(changes.VhostRow("c"))])
    killed = tmp_path / "killed"
    killed.mkdir()
    for name in (f"{path.name}-wal", HIGH_WATER):
        shutil.copy(path.with_name(name), killed)
    (killed / path.name).write_bytes(older)
    with pytest.raises(StoreIncomplete, match="is of an earlier moment than its -wal"):
        DefinitionStore.open(killed / path.name)
    shutil.copy(path, killed)
    with DefinitionStore.open(killed / path.name) as found:
        assert [row.name for row in found.load().vhosts] == ["a", "b", "c"]
