"""The state of an audit that goes on: the reduced events of all segments that were read, as a Parquet table.

    OUT/audit/_state/20261121T193000.123456Z/part-000000.parquet
    OUT/audit/20261121T193000.123456Z/_state.json

A run adds the files of the segments that were new to it, and names all files in its own directory. So the state is that
of the valid run, and what an interrupted run has left behind is removed by the next.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from leveret_events.segment_names import SegmentName, parse_name
from pipeline.event_parts import Part
from pipeline.file_target import Target
from pipeline.jobs.job_results import NOT_OURS, ResultsError
from pipeline.spark_audit.number_blocks import BLOCK_BITS

STATE = "audit/_state"
NAME = "_state.json"
FORMAT = [2, BLOCK_BITS]
"""Version of the files. Those of another one are not read: the log is read from its begin."""


class Kept(NamedTuple):
    """State before a run, and where the run adds to it: segments that were read, files with their reduced events."""

    target: Target
    segments: frozenset[SegmentName]
    files: tuple[str, ...]
    directory: str

    def new(self, parts: Sequence[Part]) -> list[Part]:
        """Return the parts of segments that have not been read."""
        return [part for part in parts if part.name not in self.segments]

    def save(self, run: str, parts: Sequence[Part]) -> None:
        """Name the state with these parts added as that of a run."""
        added = (f"{self.directory}/{name}" for name in self.target.names(self.directory))
        segments = {*self.segments, *(part.name for part in parts)}
        record = {"format": FORMAT, "segments": sorted(map(str, segments)), "files": [*self.files, *added]}
        self.target.put(f"{run}/{NAME}", json.dumps(record).encode())

    def tidy(self) -> None:
        """Remove directories of runs that were never published."""
        used = {name.split("/")[2] for name in self.files} | {self.directory.split("/")[2]}
        for name in self.target.names(STATE):
            if name not in used:
                self.target.remove(f"{STATE}/{name}")


def kept_since(target: Target, last: str | None, run: str) -> Kept:
    """Return the state of the last run, of which the directory is given if there is one, for a run that begins.

    Raises ResultsError for a state that cannot be read.
    """
    directory = f"{STATE}/{run.rpartition('/')[2]}"
    if last is None or target.size(f"{last}/{NAME}") is None:
        return Kept(target, frozenset(), (), directory)
    try:
        record = json.loads(target.get(f"{last}/{NAME}"))
        if record["format"] != FORMAT:
            return Kept(target, frozenset(), (), directory)
        names = (parse_name(name) for name in record["segments"])
        segments = frozenset(name for name in names if name is not None)
        return Kept(target, segments, tuple(record["files"]), directory)
    except (KeyError, TypeError, ValueError):
        raise ResultsError(f"{target}/{last}/{NAME} {NOT_OURS}, and the log is read from its begin") from None


def state_rows(
    target: Target, tasks: Sequence[Sequence[str]], numbers: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Read the files of the tasks with these numbers: rows of `log_reading.READ`."""
    for batch in numbers:
        for name in (name for number in batch.column(0).to_pylist() for name in tasks[number]):
            yield from target.table(name).to_batches()
