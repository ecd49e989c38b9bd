"""The audit's judgement on all lives of a run, of whose messages nothing was lost."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.audit.audit import audit, reduce
from pipeline.event_parts import parts_of
from tests.simulation.copies import Broken


def judge(directory: Path) -> dict[str, int]:
    """Audit a log: figures on what was judged. Raises Broken for an alarm, or for a doubt."""
    found = audit(map(reduce, parts_of(str(directory))))
    rows = found.rows
    violated = pc.greater(pc.fill_null(pc.list_value_length(rows["violations"]), 0), 0)
    alarms = rows.filter(pc.or_(pc.is_in(rows["verdict"], pa.array(["lost", "unknown"])), violated)).to_pylist()
    if alarms:
        raise Broken(f"the audit finds {len(alarms)} of {rows.num_rows} copies wrong, such as {alarms[0]}")
    doubtful = [gap for gap in found.gaps if gap.doubtful]
    if doubtful:
        raise Broken(f"the audit is left in doubt: {doubtful[0]}")
    return {"audited boots": len(found.boots), "audited copies": rows.num_rows}
