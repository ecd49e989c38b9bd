"""Migrations: whole or not at all, never backwards, never on what is not ours."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from migrations.apply import Migration, MigrationError, apply, migrations

NEXT = len(migrations()) + 1
SECOND = Migration(
    NEXT, f"{NEXT:04}_colours", "CREATE TABLE colours (name TEXT); INSERT INTO colours VALUES ('hazel');"
)
BROKEN = Migration(NEXT, f"{NEXT:04}_broken", "CREATE TABLE colours (name TEXT); INSERT INTO nowhere VALUES (1);")


def query(path: Path, sql: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


def run(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(sql)


def tables(path: Path) -> set[str]:
    return {name for (name,) in query(path, "SELECT name FROM sqlite_schema WHERE type = 'table'")}


def contents(directory: Path) -> dict[str, bytes]:
    return {entry.name: entry.read_bytes() for entry in directory.iterdir()}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "definitions.sqlite"


def test_the_released_migrations_are_numbered_without_gaps() -> None:
    assert [step.number for step in migrations()] == list(range(1, len(migrations()) + 1))


def test_a_gap_in_the_numbers_is_refused(tmp_path: Path) -> None:
    for name in ("0001_a.sql", "0003_b.sql"):
        (tmp_path / name).write_text("SELECT 1;")
    with pytest.raises(MigrationError, match="without gaps"):
        migrations(tmp_path)


def test_a_new_file_is_complete_and_leaves_nothing_beside_it(path: Path) -> None:
    apply(path)
    assert query(path, "PRAGMA user_version") == [(len(migrations()),)]
    assert {"vhosts", "users", "queues", "bindings", "tombstones", "metadata"} <= tables(path)
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_every_new_file_has_an_identity_of_its_own(tmp_path: Path) -> None:
    for name in ("one", "two"):
        apply(tmp_path / name)
    one, two = (
        query(tmp_path / name, "SELECT value FROM metadata WHERE key = 'store_uuid'") for name in ("one", "two")
    )
    assert len(one[0][0]) == 16
    assert one != two


def test_what_an_interrupted_creation_left_is_thrown_away(path: Path) -> None:
    draft = path.with_name(path.name + ".new")
    draft.write_bytes(b"half a file")
    apply(path)
    assert not draft.exists()
    assert "queues" in tables(path)


def test_the_file_appears_under_its_name_only_when_it_is_synced(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Crash-safe creation: file sync, rename, directory sync, in that order."""
    happened: list[str] = []
    sync, replace = os.fsync, Path.replace

    def recorded_sync(descriptor: int) -> None:
        happened.append("sync " + Path(f"/proc/self/fd/{descriptor}").readlink().name)
        sync(descriptor)

    def recorded_replace(source: Path, target: Path) -> Path:
        happened.append(f"rename {source.name}")
        return replace(source, target)

    monkeypatch.setattr(os, "fsync", recorded_sync)
    monkeypatch.setattr(Path, "replace", recorded_replace)
    apply(path)
    assert happened == [f"sync {path.name}.new", f"rename {path.name}.new", f"sync {path.parent.name}"]


def test_a_current_file_is_left_alone(path: Path) -> None:
    apply(path)
    before = contents(path.parent)
    apply(path)
    assert contents(path.parent) == before


def test_what_is_missing_is_run_and_a_copy_is_kept_first(path: Path) -> None:
    apply(path)
    run(path, "INSERT INTO vhosts VALUES ('v', '', '[]', '')")
    apply(path, [*migrations(), SECOND])
    assert query(path, "SELECT name FROM colours") == [("hazel",)]
    assert query(path, "PRAGMA user_version") == [(NEXT,)]
    copy = path.with_name(path.name + f".before-{SECOND.name}")
    assert query(copy, "SELECT name FROM vhosts") == [("v",)]
    assert query(copy, "PRAGMA user_version") == [(NEXT - 1,)]
    assert "colours" not in tables(copy)


def test_the_copy_holds_what_is_only_in_the_write_ahead_log(path: Path) -> None:
    apply(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("INSERT INTO vhosts VALUES ('logged', '', '[]', '')")
        connection.commit()
        apply(path, [*migrations(), SECOND])
    copy = path.with_name(path.name + f".before-{SECOND.name}")
    assert query(copy, "SELECT name FROM vhosts") == [("logged",)]


def test_a_failing_migration_leaves_the_schema_before_it(path: Path) -> None:
    apply(path)
    with pytest.raises(MigrationError, match=f"{BROKEN.name} failed, nothing of it was kept: no such table: nowhere"):
        apply(path, [*migrations(), BROKEN])
    assert "colours" not in tables(path)
    assert query(path, "PRAGMA user_version") == [(NEXT - 1,)]


def test_a_failing_creation_leaves_no_file(path: Path) -> None:
    with pytest.raises(MigrationError, match=f"{BROKEN.name} failed"):
        apply(path, [*migrations(), BROKEN])
    assert not path.exists()


def test_a_newer_file_is_refused_untouched(path: Path) -> None:
    apply(path, [*migrations(), SECOND])
    before = contents(path.parent)
    with pytest.raises(
        MigrationError, match=f"has schema {NEXT}, this program knows up to {NEXT - 1}; use the newer Leveret"
    ):
        apply(path)
    assert contents(path.parent) == before


def test_a_newer_schema_that_is_only_in_the_write_ahead_log_is_refused(path: Path) -> None:
    apply(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA user_version = 9")
        connection.commit()
        with pytest.raises(MigrationError, match="has schema 9"):
            apply(path)


@pytest.mark.parametrize("foreign", [b"", b"not a database", b"SQLite format 3\0" + bytes(84)])
def test_a_foreign_file_is_refused_untouched(path: Path, foreign: bytes) -> None:
    path.write_bytes(foreign)
    with pytest.raises(MigrationError, match="is not a definitions store of Leveret"):
        apply(path)
    assert contents(path.parent) == {path.name: foreign}


def test_the_database_of_another_program_is_refused(path: Path) -> None:
    run(path, "CREATE TABLE theirs (x)")
    with pytest.raises(MigrationError, match="is not a definitions store of Leveret"):
        apply(path)
