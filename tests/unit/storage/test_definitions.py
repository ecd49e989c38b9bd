"""The definitions store, on real files."""

from __future__ import annotations

import logging
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage.definitions import definition_changes as changes
from storage.definitions.definition_changes import (
    BindingRow,
    Change,
    Definitions,
    DeleteBinding,
    DeleteExchange,
    DeleteGlobalParameter,
    DeleteParameter,
    DeletePermission,
    DeletePolicy,
    DeleteQueue,
    DeleteTopicPermission,
    DeleteUser,
    DeleteUserLimit,
    DeleteVhost,
    DeleteVhostLimit,
    DropTombstone,
    ExchangeRow,
    GlobalParameterRow,
    ParameterRow,
    PermissionRow,
    PolicyRow,
    PutBinding,
    PutExchange,
    PutGlobalParameter,
    PutParameter,
    PutPermission,
    PutPolicy,
    PutQueue,
    PutTopicPermission,
    PutUser,
    PutUserLimit,
    PutVhost,
    PutVhostLimit,
    QueueRow,
    SetMetadata,
    TopicPermissionRow,
    UserLimitRow,
    UserRow,
    VhostLimitRow,
    VhostRow,
)
from storage.definitions.definition_statements import STATEMENTS
from storage.definitions.definition_store import DefinitionsError, DefinitionsFull, DefinitionStore

VHOST = VhostRow("v", "for tests", ("one", "two"), "classic")
USER = UserRow("u", "hash", "rabbit_password_hashing_sha256", ("administrator",))
PERMISSION = PermissionRow("u", "v", ".*", "^a", "")
TOPIC = TopicPermissionRow("u", "v", "amq.topic", "w", "r")
EXCHANGE = ExchangeRow("v", "x", "topic", True, False, b"\0\0\0\0")
QUEUE = QueueRow(1, "v", "q", False, b"\0\0\0\5args")
BINDING = BindingRow("v", "x", "q", "queue", "a.#", b"\0\0\0\0")
POLICY = PolicyRow("v", "p", "^q", "queues", '{"max-length": 3}', 7)
PARAMETER = ParameterRow("v", "shovel", "s", '"value"')
GLOBAL = GlobalParameterRow("cluster_name", '"here"')
VHOST_LIMIT = VhostLimitRow("v", "max-queues", -1)
USER_LIMIT = UserLimitRow("u", "max-channels", 5)

EVERYTHING: list[Change] = [
    PutVhost(VHOST),
    PutUser(USER),
    PutPermission(PERMISSION),
    PutTopicPermission(TOPIC),
    PutExchange(EXCHANGE),
    PutQueue(QUEUE),
    PutBinding(BINDING),
    PutPolicy(POLICY),
    PutParameter(PARAMETER),
    PutGlobalParameter(GLOBAL),
    PutVhostLimit(VHOST_LIMIT),
    PutUserLimit(USER_LIMIT),
]
ROW_FIELDS = Definitions._fields[:12]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "definitions.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[DefinitionStore]:
    with DefinitionStore.open(path) as opened:
        yield opened


def reopened(store: DefinitionStore) -> Definitions:
    """What a new process would find."""
    store.close()
    with DefinitionStore.open(store.path) as again:
        return again.load()


def found(definitions: Definitions) -> dict[str, Any]:
    """The kinds of rows that there are any of."""
    return {name: getattr(definitions, name) for name in ROW_FIELDS if getattr(definitions, name)}


def with_everything(store: DefinitionStore, *more: Change) -> Definitions:
    store.commit([*EVERYTHING, *more])
    return store.load()


def test_a_new_store_is_empty_and_has_an_identity(store: DefinitionStore) -> None:
    assert found(store.load()) == {}
    assert len(store.uuid) == 16
    assert store.load().metadata == {"store_uuid": store.uuid}


def test_the_identity_stays(store: DefinitionStore) -> None:
    assert reopened(store).metadata["store_uuid"] == store.uuid


def test_every_kind_of_row_comes_back_as_it_was_put(store: DefinitionStore) -> None:
    store.commit(EVERYTHING)
    loaded = reopened(store)
    rows = [row for name in ROW_FIELDS for row in getattr(loaded, name)]
    assert rows == [getattr(change, "row") for change in EVERYTHING]  # noqa: B009
    assert [type(row) for row in rows] == [type(getattr(change, "row")) for change in EVERYTHING]  # noqa: B009


def test_every_change_has_its_statements() -> None:
    assert set(STATEMENTS) == set(changes.Change.__args__)


@pytest.mark.parametrize("change", EVERYTHING, ids=lambda change: type(change).__name__)
def test_putting_again_changes_nothing(store: DefinitionStore, change: Change) -> None:
    before = with_everything(store)
    store.commit([change, change])
    assert store.load() == before


@pytest.mark.parametrize(
    ("field", "row"),
    [
        ("vhosts", VHOST._replace(description="other", tags=(), default_queue_type="")),
        ("users", USER._replace(password_hash="", tags=())),
        ("permissions", PERMISSION._replace(configure="", read="x")),
        ("topic_permissions", TOPIC._replace(write="")),
        ("exchanges", EXCHANGE._replace(type="fanout", internal=True)),
        ("queues", QUEUE._replace(auto_delete=True, arguments=b"")),
        ("policies", POLICY._replace(priority=0, pattern="")),
        ("parameters", PARAMETER._replace(value="1")),
        ("global_parameters", GLOBAL._replace(value="2")),
        ("vhost_limits", VHOST_LIMIT._replace(value=10)),
        ("user_limits", USER_LIMIT._replace(value=-1)),
    ],
)
def test_putting_updates_that_row_and_nothing_that_refers_to_it(
    store: DefinitionStore, field: str, row: tuple[Any, ...]
) -> None:
    before = with_everything(store)
    put = getattr(changes, "Put" + type(row).__name__.removesuffix("Row"))
    store.commit([put(row)])
    assert store.load()._asdict() == {**before._asdict(), field: (row,)}


@pytest.mark.parametrize(
    ("change", "gone"),
    [
        (DeletePermission("u", "v"), {"permissions"}),
        (DeleteTopicPermission("u", "v"), {"topic_permissions"}),
        (DeleteTopicPermission("u", "v", "amq.topic"), {"topic_permissions"}),
        (DeleteTopicPermission("u", "v", "other"), set()),
        (DeleteExchange("v", "x"), {"exchanges", "bindings"}),
        (DeleteExchange("v", "q"), set()),
        (DeleteQueue(1), {"queues", "bindings"}),
        (DeleteBinding(BINDING), {"bindings"}),
        (DeleteBinding(BINDING._replace(arguments=b"")), set()),
        (DeletePolicy("v", "p"), {"policies"}),
        (DeletePolicy("v", "p", operator=True), set()),
        (DeleteParameter("v", "shovel", "s"), {"parameters"}),
        (DeleteGlobalParameter("cluster_name"), {"global_parameters"}),
        (DeleteVhostLimit("v", "max-queues"), {"vhost_limits"}),
        (DeleteUserLimit("u", "max-channels"), {"user_limits"}),
        (DeleteUser("u"), {"users", "permissions", "topic_permissions", "user_limits"}),
        (
            DeleteVhost("v"),
            set(ROW_FIELDS) - {"users", "user_limits", "global_parameters"},
        ),
        (DeleteVhost("nowhere"), set()),
    ],
    ids=lambda value: repr(value) if not isinstance(value, set) else "",
)
def test_deleting_takes_exactly_what_belongs_to_it(store: DefinitionStore, change: Change, gone: set[str]) -> None:
    loaded = with_everything(store, change)
    assert set(ROW_FIELDS) - found(loaded).keys() == gone


def test_an_exchange_takes_the_bindings_to_it_but_not_those_of_a_queue_with_its_name(store: DefinitionStore) -> None:
    to_exchange = BindingRow("v", "src", "x", "exchange", "", b"")
    to_queue = BindingRow("v", "src", "x", "queue", "", b"")
    elsewhere = BindingRow("w", "x", "x", "exchange", "", b"")
    loaded = with_everything(
        store,
        PutVhost(VhostRow("w")),
        *(PutBinding(row) for row in (to_exchange, to_queue, elsewhere)),
        DeleteExchange("v", "x"),
    )
    assert loaded.bindings == (to_queue, elsewhere)


def test_a_queue_takes_its_bindings_but_not_those_of_an_exchange_with_its_name(store: DefinitionStore) -> None:
    to_exchange = BINDING._replace(destination_kind="exchange")
    loaded = with_everything(store, PutBinding(to_exchange), DeleteQueue(1))
    assert loaded.bindings == (to_exchange,)


def test_bindings_differ_by_every_field(store: DefinitionStore) -> None:
    different = [BINDING._replace(**{field: "exchange"}) for field in ("source", "destination_kind", "routing_key")]
    different.append(BINDING._replace(arguments=b"\0\0\0\1"))
    assert with_everything(store, *(PutBinding(row) for row in different)).bindings == (BINDING, *different)


def test_rows_come_in_the_order_of_their_creation(store: DefinitionStore) -> None:
    names = ["zulu", "alpha", "mike"]
    store.commit([PutVhost(VHOST), *(PutExchange(EXCHANGE._replace(name=name)) for name in names)])
    assert [row.name for row in reopened(store).exchanges] == names


# Ids and tombstones: what keeps a restart from erasing or mixing up messages.


def test_a_deleted_queue_leaves_a_tombstone_until_it_is_dropped(store: DefinitionStore) -> None:
    store.commit([*EVERYTHING, PutQueue(QUEUE._replace(id=2, name="r")), DeleteQueue(1), DeleteQueue(2)])
    assert store.load().tombstones == {1, 2}
    store.commit([DropTombstone(1)])
    assert reopened(store).tombstones == {2}


def test_a_deleted_vhost_leaves_a_tombstone_for_each_of_its_queues(store: DefinitionStore) -> None:
    other = [PutVhost(VhostRow("w")), PutQueue(QueueRow(3, "w", "q", False, b""))]
    loaded = with_everything(store, PutQueue(QUEUE._replace(id=2, name="r")), *other, DeleteVhost("v"))
    assert loaded.tombstones == {1, 2}
    assert [queue.id for queue in loaded.queues] == [3]


def test_the_id_of_a_deleted_queue_is_refused(store: DefinitionStore) -> None:
    store.commit([*EVERYTHING, DeleteQueue(1)])
    with pytest.raises(DefinitionsError, match="this queue id belongs to a deleted queue"):
        store.commit([PutQueue(QUEUE)])


def test_delayed_messages_of_an_exchange_leave_a_tombstone_as_queues_do(store: DefinitionStore) -> None:
    delaying = EXCHANGE._replace(queue_id=2)
    store.commit([PutVhost(VHOST), PutExchange(delaying), DeleteExchange("v", "x")])
    assert store.load().tombstones == {2}
    with pytest.raises(DefinitionsError, match="this queue id belongs to something deleted"):
        store.commit([PutExchange(delaying)])
    store.commit([PutExchange(delaying._replace(queue_id=3)), DeleteVhost("v")])
    assert store.load().tombstones == {2, 3}


def test_the_sequence_knows_the_ids_of_exchanges(store: DefinitionStore) -> None:
    store.commit([PutVhost(VHOST), PutExchange(EXCHANGE._replace(queue_id=41))])
    assert reopened(store).queue_id_sequence == 41


def test_a_name_may_come_back_under_a_new_id(store: DefinitionStore) -> None:
    loaded = with_everything(store, DeleteQueue(1), PutQueue(QUEUE._replace(id=2)))
    assert loaded.queues == (QUEUE._replace(id=2),)
    assert loaded.tombstones == {1}


def test_the_sequence_remembers_the_highest_id_after_all_queues_are_gone(store: DefinitionStore) -> None:
    assert store.load().queue_id_sequence == 0
    store.commit([PutVhost(VHOST), PutQueue(QUEUE._replace(id=41)), DeleteQueue(41), DropTombstone(41)])
    assert reopened(store).queue_id_sequence == 41


def test_the_sequence_is_lifted_and_never_lowered(store: DefinitionStore) -> None:
    store.lift_queue_id(100)
    assert store.load().queue_id_sequence == 100
    store.lift_queue_id(7)
    assert store.load().queue_id_sequence == 100
    store.commit([PutVhost(VHOST), PutQueue(QUEUE._replace(id=101))])
    assert reopened(store).queue_id_sequence == 101


def test_two_queues_cannot_have_one_name(store: DefinitionStore) -> None:
    with pytest.raises(DefinitionsError, match="UNIQUE"):
        store.commit([*EVERYTHING, PutQueue(QUEUE._replace(id=2))])


# Names are bytes, and all of them stay what they are.


@given(name=st.binary(max_size=255))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
def test_any_name_comes_back_as_the_same_bytes(store: DefinitionStore, name: bytes) -> None:
    text = name.decode("utf-8", "surrogateescape")
    row = ExchangeRow("v", text, "direct", False, False, name)
    store.commit([PutVhost(VHOST), PutExchange(row)])
    assert store.load().exchanges == (row,)
    store.commit([DeleteExchange("v", text)])
    assert store.load().exchanges == ()


def test_names_that_look_alike_stay_apart(store: DefinitionStore) -> None:
    names = ["é", "e\N{COMBINING ACUTE ACCENT}", "\udcff", "ÿ", "a", "A", "a\0", "1", "01", ""]
    store.commit([PutVhost(VHOST), *(PutExchange(EXCHANGE._replace(name=name)) for name in names)])
    assert [row.name for row in reopened(store).exchanges] == names


def test_a_text_that_is_no_name_at_all_is_refused(store: DefinitionStore) -> None:
    with pytest.raises(DefinitionsError, match="surrogates not allowed"):
        store.commit([PutVhost(VhostRow("\ud800"))])


# Transactions.


def test_all_of_a_call_or_nothing(store: DefinitionStore) -> None:
    before = with_everything(store)
    failing: Sequence[Change] = [DeleteVhost("v"), PutPermission(PERMISSION)]
    with pytest.raises(DefinitionsError, match="FOREIGN KEY constraint failed"):
        store.commit(failing)
    assert store.load() == before
    store.commit([DeletePolicy("v", "p")])
    assert reopened(store).policies == ()


def test_an_id_that_is_too_large_is_an_error_and_not_a_crash(store: DefinitionStore) -> None:
    with pytest.raises(DefinitionsError, match="too large"):
        store.commit([PutVhost(VHOST), PutQueue(QUEUE._replace(id=1 << 63))])
    assert store.load().vhosts == ()


def test_a_full_disk_is_told_apart_and_the_store_goes_on(store: DefinitionStore) -> None:
    store.commit([PutVhost(VHOST)])
    # The page limit makes SQLite answer as it does when the file system has no room left.
    store._call(store._rows, "PRAGMA max_page_count = 1")
    big = PutGlobalParameter(GlobalParameterRow("big", "x" * 100_000))
    with pytest.raises(DefinitionsFull, match="disk is full"):
        store.commit([PutVhost(VhostRow("w")), big])
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


def test_threads_may_commit_at_once(store: DefinitionStore) -> None:
    store.commit([PutVhost(VHOST)])

    def declare(start: int) -> None:
        for number in range(start, start + 10):
            store.commit([PutQueue(QueueRow(number, "v", f"q{number}", False, b""))])

    threads = [threading.Thread(target=declare, args=(start,)) for start in (1, 11, 21)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [queue.id for queue in reopened(store).queues] == list(range(1, 31))


def test_nothing_to_commit_is_nothing_done(store: DefinitionStore) -> None:
    store.commit([])
    assert found(store.load()) == {}


def test_metadata_is_kept(store: DefinitionStore) -> None:
    store.commit([SetMetadata("clean", b"1"), SetMetadata("clean", b"2")])
    assert store.metadata() == {"store_uuid": store.uuid, "clean": b"2"}
    assert reopened(store).metadata == {"store_uuid": store.uuid, "clean": b"2"}


def test_the_journal_is_synced_at_every_commit(store: DefinitionStore) -> None:
    """Less than a synced write-ahead log loses the last commit at a power failure."""
    assert store._call(store._rows, "PRAGMA journal_mode") == [("wal",)]
    assert store._call(store._rows, "PRAGMA synchronous") == [(2,)]


# Opening, closing, copying.


@pytest.mark.slow
def test_a_second_opening_is_refused(store: DefinitionStore) -> None:
    with pytest.raises(DefinitionsError, match="is in use by another process"):
        DefinitionStore.open(store.path)


def test_another_program_cannot_look_behind_our_back(store: DefinitionStore) -> None:
    store.commit([PutVhost(VHOST)])
    connection = sqlite3.connect(store.path, timeout=0)
    try:
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            connection.execute("SELECT * FROM vhosts")
    finally:
        connection.close()


def test_a_missing_file_may_be_an_error(path: Path) -> None:
    with pytest.raises(DefinitionsError, match="is missing"):
        DefinitionStore.open(path, create=False)
    assert not path.exists()


def test_a_foreign_file_is_refused(path: Path) -> None:
    path.write_bytes(b"something else")
    with pytest.raises(DefinitionsError, match="is not a definitions store of Leveret"):
        DefinitionStore.open(path)


def test_a_directory_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(DefinitionsError, match="nowhere"):
        DefinitionStore.open(tmp_path / "nowhere" / "definitions.sqlite")


def test_a_closed_store_says_so(store: DefinitionStore) -> None:
    store.close()
    store.close()
    with pytest.raises(DefinitionsError, match="is closed"):
        store.load()


def test_a_backup_is_a_store(store: DefinitionStore, tmp_path: Path) -> None:
    before = with_everything(store)
    store.backup(tmp_path / "copy.sqlite")
    store.commit([DeleteVhost("v")])
    with DefinitionStore.open(tmp_path / "copy.sqlite") as copy:
        assert copy.load() == before
        assert copy.uuid == store.uuid


def test_a_backup_overwrites_nothing(store: DefinitionStore, tmp_path: Path) -> None:
    (tmp_path / "copy.sqlite").write_text("precious")
    with pytest.raises(DefinitionsError, match="exists already"):
        store.backup(tmp_path / "copy.sqlite")
    assert (tmp_path / "copy.sqlite").read_text() == "precious"


KILLED = """
import os, sys
from pathlib import Path
from storage.definitions.definition_changes import PutVhost, VhostRow
from storage.definitions.definition_store import DefinitionStore
store = DefinitionStore.open(Path(sys.argv[1]))
for name in "abc":
    store.commit([PutVhost(VhostRow(name))])
os.kill(os.getpid(), 9)
"""


def test_what_was_committed_survives_a_kill(path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", KILLED, str(path)], timeout=60, check=False)
    assert ended.returncode == -9
    with DefinitionStore.open(path) as store:
        assert [vhost.name for vhost in store.load().vhosts] == ["a", "b", "c"]
