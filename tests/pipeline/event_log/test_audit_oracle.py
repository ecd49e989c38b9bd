"""The rules of the audit and their statement in SQL say the same of every copy, message and gap.

`tests/pipeline/oracle/verdicts.sql` is written from the documents, event by event; the rules reduce events to columns
first. Brokers that are really killed are held against it by `test_kill_audit.py` and `make crash-audit`.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from harness.event_logs.made_up_log import write
from pipeline.audit.audit import audit, reduce
from pipeline.audit.message_rules import VIOLATIONS as MESSAGE_VIOLATIONS
from pipeline.audit.verdict_table import VIOLATIONS
from pipeline.event_parts import Part, parts_of
from tests.pipeline.inputs.changed_histories import changed
from tests.pipeline.inputs.made_up_events import History, export_of
from tests.pipeline.inputs.planted_faults import ANSWERED, BESIDE, FAULTS, told_among_innocents, told_beside
from tests.pipeline.inputs.planted_stories import STORIES, history_of
from tests.pipeline.oracle.sql_verdicts import Verdicts, differences, events_of, of_oracle, of_rules

pytestmark = pytest.mark.slow

EVENTS = 6000
SEED = 1


def planted() -> list[History]:
    """All planted histories."""
    stories: list[History] = [history_of(name) for name in STORIES]
    stories += [told_beside(name) for name in BESIDE | ANSWERED]
    return stories + [told_among_innocents(name)[0] for name in FAULTS]


def judged(parts: list[Part]) -> tuple[Verdicts, Verdicts]:
    """The verdicts of the oracle and of the rules on a log."""
    events: pa.Table = events_of(parts)
    return of_oracle(events), of_rules(audit(map(reduce, parts)))


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Verdicts, Verdicts]:
    return judged(export_of(tmp_path_factory.mktemp("planted"), planted()))


def test_rules_and_oracle_agree_on_every_planted_history(both: tuple[Verdicts, Verdicts]) -> None:
    assert differences(*both) == []
    assert len({word for row in both[0].rows for word in row[6:]}) == len(VIOLATIONS) + len(MESSAGE_VIOLATIONS)


def test_a_verdict_that_one_of_them_lacks_is_a_difference(both: tuple[Verdicts, Verdicts]) -> None:
    oracle, rules = both
    guilty = next(row for row in rules.rows if row[6:] == ("settled twice",))
    changed = rules.rows.copy()
    changed[guilty] -= 1
    changed[guilty[:6]] += 1
    found = differences(oracle, rules._replace(rows=changed))
    assert sorted(found) == [f"oracle only: {guilty}", f"rules only: {guilty[:6]}"]


def test_rules_and_oracle_agree_on_histories_changed_at_random(tmp_path: Path) -> None:
    oracle, rules = judged(export_of(tmp_path, changed(planted(), SEED)))
    assert differences(oracle, rules) == []


def test_rules_and_oracle_agree_on_a_log_with_a_little_of_everything(tmp_path: Path) -> None:
    write(tmp_path, EVENTS)
    oracle, rules = judged(parts_of(str(tmp_path)))
    assert differences(oracle, rules) == []
    assert sum(oracle.rows.values()) > EVENTS / 10
