"""The state of an audit that goes on: reduced events of messages that are not over, and what remains of the others.

    OUT/audit/_state/20261121T193000.123456Z/part-000000.parquet
    OUT/audit/20261121T193000.123456Z/_state.json

A run reads the state of the valid run and what is new in the log, and writes a new state. What an interrupted run has
left behind is removed by the next.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from pipeline.audit.log_coverage import Coverage
from pipeline.event_parts import Part
from pipeline.file_target import Target
from pipeline.jobs.job_results import NOT_OURS, ResultsError
from pipeline.spark_audit.log_reading import READ, LogFacts, kept_facts
from pipeline.spark_audit.number_blocks import BLOCK_BITS
from pipeline.spark_audit.open_messages import LATE_EVENTS
from pipeline.spark_audit.share_verdicts import (
    CLOSED,
    CLOSED_MESSAGES,
    CLOSED_TALLY,
    LATE,
    OLDEST,
    OVERTAKER,
    Elsewhere,
)

STATE = "audit/_state"
NAME = "_state.json"
FORMAT = [3, BLOCK_BITS]
"""Version of the files. Those of another one are not read: the log is read from its begin."""


class Overtaker(NamedTuple):
    """A delivery that is remembered, as `share_verdicts.Elsewhere` has it; `late`: for the sake of a finding."""

    node: str
    vhost: str
    queue: str
    boot: int
    position: int
    first: int
    late: bool


class Carried(NamedTuple):
    """Remains of forgotten messages: copies by node, virtual host, queue and verdict; counts of messages; the highest
    number by node and boot; deliveries.
    """

    tally: list[tuple[str, str, str, str, int]] = []
    messages: dict[str, int] = {}
    forgotten: dict[str, dict[int, int]] = {}
    overtakers: list[Overtaker] = []

    def before(self) -> dict[str, list[Elsewhere]]:
        """Return the deliveries by node."""
        found = defaultdict[str, list[Elsewhere]](list)
        for each in self.overtakers:
            found[each.node].append(Elsewhere((each.vhost, each.queue), each.boot, each.position, each.first))
        return dict(found)

    def further(self, rows: Mapping[str, list[dict[str, Any]]], coverages: Mapping[str, Coverage]) -> Carried:
        """Add what a run has forgotten: rows of `share_verdicts.FACTS` by their kind."""
        tally = Counter[tuple[str, str, str, str]]()
        for node, vhost, queue, verdict, copies in self.tally:
            tally[node, vhost, queue, verdict] += copies
        for row in rows[CLOSED_TALLY]:
            tally[row["node"], row["vhost"], row["queue"], row["name"]] += row["one"]
        messages = Counter(self.messages)
        for row in rows[CLOSED_MESSAGES]:
            messages[row["name"]] += row["one"]
        forgotten = {node: dict(boots) for node, boots in self.forgotten.items()}
        for row in rows[CLOSED]:
            boots = forgotten.setdefault(row["node"], {})
            boots[row["moment"]] = max(boots.get(row["moment"], 0), row["one"])
        return Carried(
            [(*key, copies) for key, copies in tally.items()],
            dict(messages),
            forgotten,
            self._overtakers(rows[OVERTAKER], coverages),
        )

    def _overtakers(self, rows: Sequence[dict[str, Any]], coverages: Mapping[str, Coverage]) -> list[Overtaker]:
        """Keep the highest of each queue in the present boot, and those for the sake of findings."""
        new = [
            Overtaker(
                row["node"], row["vhost"], row["queue"], row["moment"], row["two"], row["one"], row["name"] == LATE
            )
            for row in rows
        ]
        highest = dict[tuple[str, str, str], Overtaker]()
        for each in [*self.overtakers, *new]:
            present = max(boot.boot for boot in coverages[each.node].boots)
            before = highest.get(each[:3], each)
            if each.boot == present and not each.late and each.position >= before.position:
                highest[each[:3]] = each
        return [*highest.values(), *(each for each in new if each.late)]


class Record(NamedTuple):
    """The state as it stands in a run: its version, the last event that was read by node and boot, files, remains."""

    format: list[int]
    through: dict[str, dict[int, int]]
    files: list[str]
    carried: Carried


class Kept(NamedTuple):
    """State before a run, and the directory where the run writes that behind it.

    `late`: events within which something may still be heard of a message that is over.
    """

    target: Target
    record: Record
    directory: str
    late: int = LATE_EVENTS

    def new(self, parts: Sequence[Part]) -> list[Part]:
        """Return what has not been read of some parts of a log."""
        read = self.record.through
        ends = ((part, read.get(part.name.node, {}).get(part.name.boot, 0)) for part in parts)
        return [part._replace(after=max(part.after, end)) for part, end in ends if part.until > end]

    def keep(
        self, facts: Mapping[str, LogFacts], rows: Mapping[str, list[dict[str, Any]]], coverages: Mapping[str, Coverage]
    ) -> Carried:
        """Write what the log says of its nodes, beside what tasks have written; returns the remains of the others."""
        oldest = dict[str, int]()
        for row in rows[OLDEST]:
            oldest[row["node"]] = min(oldest.get(row["node"], row["one"]), row["one"])
        kept = []
        for node, told in facts.items():
            present = max((boot.boot for boot in coverages[node].boots), default=0)
            kept.append(kept_facts(node, told, min(oldest.get(node, present), present)))
        self.target.put_table(f"{self.directory}/facts.parquet", pa.Table.from_pylist(kept, READ))
        return self.record.carried.further(rows, coverages)

    def save(self, run: str, parts: Sequence[Part], carried: Carried) -> None:
        """Name the state behind these parts as that of a run."""
        through = {node: dict(boots) for node, boots in self.record.through.items()}
        for part in parts:
            boots = through.setdefault(part.name.node, {})
            boots[part.name.boot] = max(boots.get(part.name.boot, 0), part.until)
        files = [f"{self.directory}/{name}" for name in self.target.names(self.directory)]
        record = Record(FORMAT, through, files, carried)
        self.target.put(f"{run}/{NAME}", msgspec.json.encode(record._asdict()))

    def tidy(self) -> None:
        """Remove the states of other runs."""
        for name in self.target.names(STATE):
            if name != self.directory.rpartition("/")[2]:
                self.target.remove(f"{STATE}/{name}")


def kept_since(target: Target, last: str | None, run: str) -> Kept:
    """Return the state of the last run, of which the directory is given if there is one, for a run that begins.

    Raises ResultsError for a state that cannot be read.
    """
    directory = f"{STATE}/{run.rpartition('/')[2]}"
    nothing = Kept(target, Record(FORMAT, {}, [], Carried()), directory)
    if last is None or target.size(f"{last}/{NAME}") is None:
        return nothing
    try:
        record = json.loads(target.get(f"{last}/{NAME}"))
        if record["format"] != FORMAT:
            return nothing
        fields = (msgspec.convert(record[name], kind, strict=False) for name, kind in _KINDS.items())
        return nothing._replace(record=Record(*fields))
    except (KeyError, TypeError, ValueError):
        raise ResultsError(f"{target}/{last}/{NAME} {NOT_OURS}, and the log is read from its begin") from None


_KINDS: dict[str, Any] = {
    "format": list[int],
    "through": dict[str, dict[int, int]],
    "files": list[str],
    "carried": Carried,
}


def state_rows(
    target: Target, tasks: Sequence[Sequence[str]], numbers: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Read the files of the tasks with these numbers: rows of `log_reading.READ`."""
    for batch in numbers:
        for name in (name for number in batch.column(0).to_pylist() for name in tasks[number]):
            yield from target.table(name).to_batches()
