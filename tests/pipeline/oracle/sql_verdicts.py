"""The oracle of the audit: its verdicts as DuckDB finds them with the statements in `verdicts.sql`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa

from leveret_spark.events.event_columns import SCHEMA
from pipeline.audit.audit import Audited
from pipeline.event_parts import Part

STATEMENTS = Path(__file__).with_name("verdicts.sql")
KINDS = {
    "events not written": "not written",
    "damaged segment": "not written",
    "end of a boot": "end",
    "events removed": "removed",
    "boot without its first event": "no begin",
    "boots without a log": "no log",
    "event out of place": "misplaced",
}
COPIES = """
SELECT v.node, v.vhost, v.queue, v.position, v.message_number, v.verdict,
       list_sort(list(x.violation) FILTER (x.violation IS NOT NULL))
FROM copy_verdict v LEFT JOIN copy_violation x USING (node, vhost, queue, position) GROUP BY ALL
"""
MESSAGES = """
SELECT node, NULL, NULL, NULL, msg_id, 'message', list_sort(list(violation)) FROM message_violation GROUP BY ALL
"""
Row = tuple[Any, ...]


class Verdicts(NamedTuple):
    """Rows (node, vhost, queue, position, message number, verdict, violations ...) and gaps, with their counts."""

    rows: Counter[Row]
    gaps: Counter[Row]


def events_of(parts: Iterable[Part]) -> pa.Table:
    """Read all events of a log, whole files at a time."""
    found = [_plain(part, batch) for part in parts for batch in part.batches(SCHEMA.names, [])]
    return pa.Table.from_batches(found, SCHEMA)


def _plain(part: Part, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Events as the table has them; the node as file names have it, by which the rules go."""
    columns = [column.cast(field.type) for column, field in zip(batch.columns, SCHEMA, strict=True)]
    columns[0] = pa.array([part.name.node] * batch.num_rows)
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def of_oracle(events: pa.Table) -> Verdicts:
    """Judge a table of events in SQL."""
    with duckdb.connect() as database:
        database.execute("SET threads = 1")
        database.register("events", events)
        database.execute(STATEMENTS.read_text(encoding="utf-8"))
        copies = database.execute(COPIES).fetchall()
        messages = database.execute(MESSAGES).fetchall()
        lost = database.execute("SELECT node, vhost, queue, msg_id FROM lost_on_the_way").fetchall()
        gaps = database.execute("SELECT node, kind, boot, after, lost, doubtful FROM gap").fetchall()
    rows = [(*row[:6], *(row[6] or ())) for row in (*copies, *messages)]
    rows += [(*row[:3], None if row[2] is None else row[3], row[3], "lost") for row in lost]
    return Verdicts(Counter(rows), Counter(gaps))


def of_rules(found: Audited) -> Verdicts:
    """Convert the findings of the product to the same form."""
    columns = ("node", "vhost", "queue", "position", "msg_id", "verdict")
    rows = [(*(row[name] for name in columns), *sorted(row["violations"])) for row in found.rows.to_pylist()]
    gaps = [(gap.node, KINDS[gap.kind], gap.boot, gap.after, gap.lost, gap.doubtful) for gap in found.gaps]
    return Verdicts(Counter(rows), Counter(gaps))


def differences(oracle: Verdicts, rules: Verdicts) -> list[str]:
    """List the verdicts that only one of the two has reached."""
    return [
        f"{who}: {row}"
        for ours, theirs in zip(oracle, rules, strict=True)
        for who, more in (("oracle only", ours - theirs), ("rules only", theirs - ours))
        for row in more
    ]
