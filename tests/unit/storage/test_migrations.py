"""Migrations: whole or not at all, never backwards, never on what is not ours."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from migrations.apply import Migration, MigrationError, apply, migrations
from tests.unit.storage.writing import contents

NEXT = len(migrations()) + 1
SECOND = Migration(
    NEXT, f"{NEXT:04}_colours", "CREATE TABLE colours (name TEXT); INSERT INTO colours VALUES ('hazel');"
)
BROKEN = Migration(NEXT, f"{NEXT:04}_broken", "CREATE TABLE colours (name TEXT); INSERT INTO nowhere VALUES (1);")


def query(path: Path, sql: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


def tables(path: Path) -> set[str]:
    return {name for (name,) in query(path, "SELECT name FROM sqlite_schema WHERE type = 'table'")}


def change_and_crash(path: Path, sql: str) -> None:
    """Change the file as a process does that is killed then: what has changed is in the write-ahead log alone."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(sql)
        connection.commit()
        left = contents(path.parent)
    for name, data in left.items():
        path.with_name(name).write_bytes(data)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "definitions.sqlite"


def test_a_gap_in_the_numbers_is_refused(tmp_path: Path) -> None:
    for name in ("0001_a.sql", "0003_b.sql"):
        (tmp_path / name).write_text("SELECT 1;")
    with pytest.raises(MigrationError, match="without gaps"):
        migrations(tmp_path)


def test_a_new_file_is_complete_and_leaves_nothing_beside_it(path: Path) -> None:
    """Files of an interrupted creation are thrown away; and a file that is current is left alone."""
    path.with_name(path.name + ".new").write_bytes(b"half a file")
    apply(path)
    assert query(path, "PRAGMA user_version") == [(len(migrations()),)]
    assert {"vhosts", "users", "queues", "bindings", "tombstones", "metadata"} <= tables(path)
    before = contents(path.parent)
    assert before.keys() == {path.name}
    apply(path)
    assert contents(path.parent) == before


def test_what_is_missing_is_run_and_a_copy_is_kept_first(path: Path) -> None:
    """The copy holds the contents of the write-ahead log, too."""
    apply(path)
    change_and_crash(path, "INSERT INTO vhosts VALUES ('v', '', '[]', '', NULL)")
    apply(path, [*migrations(), SECOND])
    assert query(path, "SELECT name FROM colours") == [("hazel",)]
    assert query(path, "PRAGMA user_version") == [(NEXT,)]
    copy = path.with_name(path.name + f".before-{SECOND.name}")
    assert query(copy, "SELECT name FROM vhosts") == [("v",)]
    assert query(copy, "PRAGMA user_version") == [(NEXT - 1,)]
    assert "colours" not in tables(copy)


def test_a_failing_migration_leaves_the_schema_before_it(path: Path) -> None:
    """A newer file is refused untouched."""
    apply(path)
    with pytest.raises(MigrationError, match=f"{BROKEN.name} failed, nothing of it was kept: no such table: nowhere"):
        apply(path, [*migrations(), BROKEN])
    assert "colours" not in tables(path)
    assert query(path, "PRAGMA user_version") == [(NEXT - 1,)]
    apply(path, [*migrations(), SECOND])
    before = contents(path.parent)
    words = f"has schema {NEXT}, this program knows up to {NEXT - 1}; use the newer Leveret"
    with pytest.raises(MigrationError, match=words):
        apply(path)
    assert contents(path.parent) == before
    other = path.with_name("other.sqlite")
    apply(other)
    change_and_crash(other, "PRAGMA user_version = 9")
    with pytest.raises(MigrationError, match="has schema 9"):
        apply(other)


@pytest.mark.parametrize("foreign", [b"", b"not a database", b"SQLite format 3\0" + bytes(84)])
def test_a_foreign_file_is_refused_untouched(path: Path, foreign: bytes) -> None:
    path.write_bytes(foreign)
    with pytest.raises(MigrationError, match="is not a definitions store of Leveret"):
        apply(path)
    assert contents(path.parent) == {path.name: foreign}
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    with pytest.raises(MigrationError, match="is not a definitions store of Leveret"):
        apply(path)
