"""Check of a stopped broker's definitions file, without changing it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from storage.definitions.definitions_copy import copied
from storage.storage_errors import StoreIncompatible


@dataclass
class DefinitionsReport:
    """Queues in the file, and problems: sentences for an operator."""

    uuid: bytes = b""
    queue_ids: set[int] = field(default_factory=set)
    delay_ids: set[int] = field(default_factory=set)
    """Keys of exchanges' delayed messages in the message store."""
    tombstones: set[int] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)


def verify_definitions(path: Path) -> DefinitionsReport:
    """Check the file at `path`. Raises StoreIncompatible if it is not a definitions file at all, and StoreError."""
    report = DefinitionsReport()
    try:
        with copied(path) as copy, closing(sqlite3.connect(copy)) as connection:
            if connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,):
                raise StoreIncompatible(
                    f"{path} is empty: bring it back, or restore a backup with `leveret restore`; where no broker has "
                    "ever been ready, its first start was cut short: start it again"
                )
            _look(connection, path, report)
    except sqlite3.Error as error:
        raise StoreIncompatible(f"{path}: cannot be read as definitions ({error}): restore it from a backup") from error
    return report


def _look(connection: sqlite3.Connection, path: Path, report: DefinitionsReport) -> None:
    (found,) = connection.execute("SELECT value FROM metadata WHERE key = 'store_uuid'")
    report.uuid = bytes(found[0])
    report.queue_ids = {number for (number,) in connection.execute("SELECT id FROM queues")}
    if any(column == "queue_id" for (column,) in connection.execute("SELECT name FROM pragma_table_info('exchanges')")):
        report.delay_ids = {number for (number,) in connection.execute("SELECT queue_id FROM exchanges") if number}
    report.tombstones = {number for (number,) in connection.execute("SELECT queue_id FROM tombstones")}
    for (finding,) in connection.execute("PRAGMA integrity_check"):
        if finding != "ok":
            report.problems.append(f"{path}: {finding}")
    for table, row, parent, _ in connection.execute("PRAGMA foreign_key_check"):
        report.problems.append(f"{path}: row {row} of {table} refers to something in {parent} that is not there")
    for vhost, destination in connection.execute(_DANGLING):
        report.problems.append(f"{path}: a binding in vhost {vhost!r} leads to {destination!r}, which is not there")


_DANGLING = """
SELECT vhost, destination FROM bindings AS b
WHERE NOT EXISTS (
    SELECT 1 FROM queues WHERE vhost = b.vhost AND name = b.destination AND b.destination_kind = 'queue'
    UNION ALL
    SELECT 1 FROM exchanges WHERE vhost = b.vhost AND name = b.destination AND b.destination_kind = 'exchange'
)
AND NOT (destination_kind = 'exchange' AND destination LIKE 'amq.%')
"""
