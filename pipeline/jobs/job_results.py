"""What a job leaves: a directory of Parquet tables for each run, and one small file that says which run counts.

    OUT/audit/20261121T193000.123456Z/verdicts/*.parquet
    OUT/audit/_run.json

A run writes its tables into a directory of its own; then `_run.json` is replaced by one that names it. So readers who
go by that file see all tables of one run or all of another, in any file system, and a run that was interrupted leaves
nothing that counts. The run before stays for those who are reading it; older ones are removed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from pipeline.spark.file_places import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RUN = "_run.json"
FORMAT = 1


class ResultsError(Exception):
    """Results that this release cannot read."""


class Run:
    """A run of a job. Its tables are invisible to readers until it is published."""

    def __init__(self, place: Place, job: str) -> None:
        self.place = place
        self.job = job
        self.began = datetime.now(UTC)
        self.name = f"{self.began:%Y%m%dT%H%M%S.%fZ}"
        self._tables: list[str] = []

    def write(self, table: str, rows: DataFrame, *, small: bool = False) -> DataFrame:
        """Write a table, a small one as one file; the rows as they are written now."""
        path = self.place.name(f"{self.job}/{self.name}/{table}")
        (rows.coalesce(1) if small else rows).write.option("compression", "zstd").parquet(path)
        self._tables.append(table)
        return self.place.spark.read.schema(rows.schema).parquet(path)

    def publish(self, facts: Mapping[str, Any]) -> None:
        """Have this run count, with facts about it that JSON can say."""
        before = last_run(self.place, self.job)
        record = {
            "format": FORMAT,
            "run": self.name,
            "began": self.began.isoformat(),
            "ended": datetime.now(UTC).isoformat(),
            "tables": self._tables,
            "facts": dict(facts),
        }
        self.place.put(f"{self.job}/{RUN}", json.dumps(record, indent=1).encode())
        if before is not None:
            older = [name for name in self.place.names(self.job) if name[0] != "_" and name < before.name]
            for name in older:
                self.place.remove(f"{self.job}/{name}")


class FinishedRun(NamedTuple):
    """The run of a job that counts. `facts` are what it said of itself."""

    place: Place
    job: str
    name: str
    ended: datetime
    tables: list[str]
    facts: dict[str, Any]

    def table(self, name: str) -> DataFrame:
        """One of its tables."""
        return self.place.spark.read.parquet(self.place.name(f"{self.job}/{self.name}/{name}"))


def last_run(place: Place, job: str) -> FinishedRun | None:
    """The run that counts, if there is one. Raises ResultsError."""
    content = place.read(f"{job}/{RUN}")
    if content is None:
        return None
    record = json.loads(content)
    if record.get("format") != FORMAT:
        raise ResultsError(f"{job}/{RUN}: format {record.get('format')}, this release reads format {FORMAT}")
    ended = datetime.fromisoformat(record["ended"])
    return FinishedRun(place, job, record["run"], ended, record["tables"], record["facts"])
