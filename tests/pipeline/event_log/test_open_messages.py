"""The state of an audit that goes on: bounded by what is open, and enough for the verdicts of the whole log.

Shares are judged in this process, as a task of Spark judges them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from harness.event_logs.made_up_log import write
from pipeline.audit.audit import audit, reduce
from pipeline.audit.verdict_counts import found_in, tally_of
from pipeline.event_parts import Part, parts_of
from pipeline.file_target import Target
from pipeline.spark_audit import log_reading
from pipeline.spark_audit.kept_state import FORMAT, Carried, Kept, Record
from pipeline.spark_audit.number_blocks import BLOCK_BITS
from pipeline.spark_audit.open_messages import limit
from pipeline.spark_audit.share_verdicts import MESSAGES, TALLIED, Judging, Keeping, judge_share
from tests.pipeline.event_log.test_audit_oracle import planted
from tests.pipeline.inputs.made_up_events import export_of

pytestmark = pytest.mark.slow

LATE = 400


class WentOn(NamedTuple):
    """Counts and findings behind the last step, and the rows of copies and messages in the state behind each."""

    tally: Counter[tuple[str, ...]]
    messages: Counter[str]
    found: set[str]
    kept: list[int]


def audited(steps: Sequence[Sequence[Part]], directory: Path) -> WentOn:
    """Audit a log step by step, each with the state behind the one before and some new parts."""
    target, carried, files, kept = Target(str(directory)), Carried(), list[str](), list[int]()
    for number, parts in enumerate(steps):
        batches = [log_reading.read_rows(part.name.node, reduce(part), BLOCK_BITS) for part in parts]
        rows = pa.Table.from_batches(
            [*batches, *(batch for name in files for batch in target.table(name).to_batches())], log_reading.READ
        )
        told = rows.filter(pc.equal(rows["what"], log_reading.LOG))
        log = log_reading.log_read(zip(told["node"].to_pylist(), told["messages"].to_pylist(), strict=True))
        facts = {node.name: node._replace(forgotten=carried.forgotten.get(node.name, {})) for node in log.nodes}
        limits = {node.name: limit(node.coverage.boots, LATE) for node in log.nodes}
        step = f"state/{number}"
        judging = Judging(
            *(target, f"run/{number}", 3, BLOCK_BITS, facts),
            *({name: np.array([at]) for name in facts} for at in (0, 1)),
            elsewhere={},
            before=carried.before(),
            keeping=Keeping(target, step, limits),
        )
        pieces = rows.filter(pc.equal(rows["what"], log_reading.PIECE))
        said = defaultdict[str, list[dict[str, Any]]](list)
        for row in judge_share(judging, (pa.scalar(1),), pieces).to_pylist():
            said[row["what"]].append(row)
        tally, messages = Counter({tuple(key): copies for *key, copies in carried.tally}), Counter(carried.messages)
        for row in said[TALLIED]:
            tally[row["node"], row["vhost"], row["queue"], row["name"]] += row["one"]
        for row in said[MESSAGES]:
            messages[row["name"]] += row["one"]
        state = Kept(target, Record(FORMAT, {}, files, carried), step)
        carried = state.keep(log.told, said, {node.name: node.coverage for node in log.nodes})
        files = [f"{step}/{name}" for name in target.names(step)]
        kept.append(sum(pc.sum(target.table(name)["size"]).as_py() or 0 for name in files))
    return WentOn(+tally, +messages, named(target.table(f"run/{number}/found")), kept)


def named(rows: pa.Table) -> set[str]:
    """Findings, each by its copy or message and what is wrong with it."""
    columns = ("node", "vhost", "queue", "position", "msg_id", "verdict", "violations")
    return set(map(repr, rows.select(columns).to_pylist()))


def whole(parts: Sequence[Part]) -> tuple[Counter[tuple[str, ...]], Counter[str], set[str]]:
    """Counts and findings of an audit that reads all at once."""
    judged = audit(map(reduce, parts))
    tally = Counter[tuple[str, ...]]()
    for row in tally_of(judged.rows).to_pylist():
        tally[row["node"], row["vhost"], row["queue"], row["verdict"]] = row["copies"]
    return tally, +Counter(judged.counts._asdict()), named(found_in(judged.rows))


def test_the_state_does_not_grow_with_the_log_and_the_verdicts_stay(tmp_path: Path) -> None:
    """Faults come long after the messages that they are of are forgotten, too."""
    kept = []
    for events in (20_000, 80_000):
        log = tmp_path / str(events)
        log.mkdir()
        write(log, events)
        parts = parts_of(str(log), most=1_000)
        went_on = audited([parts[at : at + 4] for at in range(0, len(parts), 4)], tmp_path / f"audit-{events}")
        assert went_on[:3] == whole(parts)
        kept.append(max(went_on.kept))
    assert kept[1] < 2 * kept[0]


def test_each_planted_fault_is_found_step_by_step(tmp_path: Path) -> None:
    """All planted histories, whose events come in parts of five."""
    export_of(tmp_path / "log", planted())
    of_nodes = defaultdict[str, list[Part]](list)
    for part in parts_of(str(tmp_path / "log"), most=5):
        of_nodes[part.name.node].append(part)
    most = max(map(len, of_nodes.values()))
    steps = [[parts[at] for parts in of_nodes.values() if at < len(parts)] for at in range(most)]
    went_on = audited(steps, tmp_path / "audit")
    assert went_on[:3] == whole([part for parts in of_nodes.values() for part in parts])
