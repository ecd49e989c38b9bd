"""Results of a job: a directory of Parquet tables for each run, and a small file that names the valid run.

    OUT/audit/20261121T193000.123456Z/audit/part-000000.parquet
    OUT/audit/_run.json

A run writes its tables into a directory of its own; then `_run.json` is replaced by one that names it. So readers of
that file see all tables of one run, in any file system, and nothing of an interrupted run. The run before stays for
present readers; older ones are removed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.audit.log_coverage import Boot, Coverage, Gap
from pipeline.file_target import Target

RUN = "_run.json"
FORMAT = 2
"""Version of the results. Those of format 1 are ignored: the next run replaces them."""


NOT_OURS = "is damaged, or of another program: remove it"


class ResultsError(Exception):
    """Raised for results that this release cannot read."""


class Run:
    """A run of a job. Its tables are invisible to readers until it is published."""

    def __init__(self, target: Target, job: str) -> None:
        self.began = datetime.now(UTC)
        self.name = f"{self.began:%Y%m%dT%H%M%S.%fZ}"
        self.target = target
        self.directory = f"{job}/{self.name}"
        self._job = job
        self._tables: list[str] = []

    def write(self, table: str, rows: pa.Table) -> None:
        """Write a table."""
        self.target.put_table(f"{self.directory}/{table}/part-000000.parquet", rows)
        self._tables.append(table)

    def written(self, table: str, schema: pa.Schema) -> None:
        """Others have written the rows of a table, if there are any."""
        if self.target.names(f"{self.directory}/{table}"):
            self._tables.append(table)
        else:
            self.write(table, schema.empty_table())

    def write_coverage(
        self, nodes: Iterable[Coverage], in_doubt: Sequence[int] | None = None
    ) -> tuple[list[Boot], list[Gap]]:
        """Write the tables boots and gaps of some nodes; `in_doubt`: unknown copies of each gap."""
        covered = list(nodes)
        boots = [boot for node in covered for boot in node.boots]
        gaps = [gap for node in covered for gap in node.gaps]
        missing = _table(Gap, gaps)
        if in_doubt is not None:
            missing = missing.append_column("in_doubt", pa.array(in_doubt, pa.int64()))
        self.write("boots", _table(Boot, boots))
        self.write("gaps", missing)
        return boots, gaps

    def publish(self, facts: Mapping[str, Any]) -> None:
        """Make this the valid run, with facts that JSON can hold. Removes runs older than the one before."""
        before = last_run(self.target, self._job)
        record = {
            "format": FORMAT,
            "run": self.name,
            "began": self.began.isoformat(),
            "ended": datetime.now(UTC).isoformat(),
            "tables": self._tables,
            "facts": dict(facts),
        }
        self.target.put(f"{self._job}/{RUN}", json.dumps(record, indent=1).encode())
        if before is not None:
            older = [name for name in self.target.names(self._job) if name[0] != "_" and name < before.name]
            for name in older:
                self.target.remove(f"{self._job}/{name}")


class FinishedRun(NamedTuple):
    """The valid run of a job, with the `facts` that it published."""

    target: Target
    job: str
    name: str
    ended: datetime
    tables: list[str]
    facts: dict[str, Any]

    @property
    def directory(self) -> str:
        """The directory of its tables."""
        return f"{self.job}/{self.name}"

    def table(self, name: str, wanted: pc.Expression | None = None) -> pa.Table:
        """Read one of its tables, or the rows of it that are wanted."""
        return self.target.table(f"{self.directory}/{name}", wanted)


def last_run(target: Target, job: str) -> FinishedRun | None:
    """Return the valid run, if there is one. Raises ResultsError."""
    if target.size(f"{job}/{RUN}") is None:
        return None
    try:
        record = json.loads(target.get(f"{job}/{RUN}"))
        if record.get("format") == 1:
            return None
        if record.get("format") != FORMAT:
            raise ResultsError(f"{job}/{RUN}: format {record.get('format')}, this release reads format {FORMAT}")
        ended = datetime.fromisoformat(record["ended"])
        return FinishedRun(target, job, record["run"], ended, record["tables"], record["facts"])
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ResultsError(f"{target}/{job}/{RUN} {NOT_OURS}, and run the job again") from None


def coverage(boots: Iterable[Boot], gaps: Iterable[Gap]) -> dict[str, Any]:
    """Summarize boots and gaps for JSON: nodes, boots, events, from, until, gaps, doubtful_gaps.

    Times are in UTC.
    """
    boots, gaps = list(boots), list(gaps)
    return {
        "nodes": sorted({boot.node for boot in boots}),
        "boots": len(boots),
        "events": sum(boot.events for boot in boots),
        "from": min((_timestamp(boot.first_us) for boot in boots), default=None),
        "until": max((_timestamp(boot.last_us) for boot in boots), default=None),
        "gaps": len(gaps),
        "doubtful_gaps": sum(gap.doubtful for gap in gaps),
    }


_TYPES = {
    **dict.fromkeys(("node", "kind", "file"), pa.string()),
    **dict.fromkeys(("doubtful", "complete"), pa.bool_()),
    **dict.fromkeys(("first_ts", "last_ts", "at_ts"), pa.timestamp("us", "UTC")),
}
"""The columns of boots and gaps that are no whole numbers."""


def _table(kind: type[Any], rows: Sequence[Any]) -> pa.Table:
    names = [name.replace("_us", "_ts") for name in kind._fields]
    columns = zip(*rows, strict=True) if rows else ([] for _ in names)
    kinds = [_TYPES.get(name, pa.int64()) for name in names]
    return pa.table([pa.array(each, kind) for each, kind in zip(columns, kinds, strict=True)], names)


def _timestamp(microseconds: int) -> str:
    moment = datetime.fromtimestamp(microseconds // 1_000_000, UTC).replace(microsecond=microseconds % 1_000_000)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
