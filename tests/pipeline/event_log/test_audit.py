"""The audit of made-up histories: it finds exactly what was planted, and concludes nothing across a gap.

Each story is that of a broker of its own. All are judged at once, as a log with many nodes would be.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from broker.entities.queues.events.event_recording import ACK, BOOT, CONFIRM, ROUTE
from harness.event_logs.made_up_log import NODE, VIOLATIONS, Made, write
from leveret_events.segment_blocks import START, blocks, encode_block, owned
from leveret_events.segment_names import SegmentName, node_name, parse_name
from pipeline.audit.audit import audit, reduce
from pipeline.audit.reduction import SEQ_BITS
from pipeline.audit.verdict_counts import SAMPLES, found_in
from pipeline.event_parts import PART_EVENTS, Part, parts_of
from pipeline.jobs.engines import engine, events_in
from pipeline.jobs.timelines import OF_MESSAGES, timelines
from tests.pipeline.inputs.made_up_events import export_of
from tests.pipeline.inputs.planted_faults import ANSWERED, BESIDE, FAULTS, told_among_innocents, told_beside
from tests.pipeline.inputs.planted_stories import STORIES, Gap, Place, Story, history_of

NO_NAME = SegmentName("", 0, 0, 0)


class Found(NamedTuple):
    """The audit's findings in one story."""

    rows: dict[Place, Any]
    gaps: list[Gap]


class Judged(NamedTuple):
    """Stories with what the audit found in them; a made-up log, and the verdicts and violations found in that."""

    stories: dict[str, tuple[Story, Found]]
    made: Made
    verdicts: Counter[str]
    violations: int


class Read(NamedTuple):
    """Events in a part at the most: of a story, and of the log."""

    of_story: int = PART_EVENTS
    of_log: int = PART_EVENTS


@pytest.fixture(
    scope="module",
    params=[Read(), pytest.param(Read(1, 50), marks=pytest.mark.slow)],
    ids=lambda read: f"local-{read.of_story}",
)
def judged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    log, exported = tmp_path_factory.mktemp("log"), tmp_path_factory.mktemp("stories")
    made = write(log, 4000)
    stories = {node_name(name): (name, history_of(name), Found({}, [])) for name in STORIES}
    export_of(exported, [history for _, history, _ in stories.values()])
    parts = [*parts_of(str(exported), most=request.param.of_story), *parts_of(str(log), most=request.param.of_log)]
    with engine("local", "audit") as read:
        found = audit(read(reduce, parts))
    of_log = []
    for row in found.rows.to_pylist():
        if row["node"] == NODE:
            of_log.append(row)
        else:
            stories[row["node"]][2].rows[row["queue"], row["position"]] = row
    for gap in found.gaps:
        if gap.node != NODE:
            stories[gap.node][2].gaps.append((gap.kind, gap.boot, gap.after, gap.lost, gap.doubtful))
    of_stories = {name: (history, found) for name, history, found in stories.values()}
    verdicts = Counter(row["verdict"] for row in of_log)
    return Judged(of_stories, made, verdicts, sum(bool(row["violations"]) for row in of_log))


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[str, ...]]]:
    """By fault of BESIDE and ANSWERED, what was found in the queue `limited`, or of a message."""
    names = {node_name(name): name for name in BESIDE | ANSWERED}
    stories = map(told_beside, names.values())
    found: dict[str, list[tuple[str, ...]]] = {name: [] for name in names.values()}
    for row in audit(map(reduce, export_of(tmp_path_factory.mktemp("beside"), stories))).rows.to_pylist():
        if row["queue"] in (None, "limited"):
            found[names[row["node"]]].append((row["verdict"], *row["violations"]))
        else:
            assert row["violations"] == [], row
    return found


@pytest.mark.parametrize("name", BESIDE | ANSWERED)
def test_a_fault_is_found_in_arguments_and_answers(beside: dict[str, list[tuple[str, ...]]], name: str) -> None:
    expected = [BESIDE[name][1]] if name in BESIDE else [("message", *ANSWERED[name][1])] if ANSWERED[name][1] else []
    assert beside[name] == expected


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[int, tuple[str, ...]]]:
    """By fault what was found of the message, as number 0, and of the innocents."""
    told = {node_name(name): (name, *told_among_innocents(name)) for name in FAULTS}
    found: dict[str, dict[int, tuple[str, ...]]] = {name: {} for name in FAULTS}
    rows = audit(
        map(reduce, export_of(tmp_path_factory.mktemp("faults"), (each[1] for each in told.values())))
    ).rows.to_pylist()
    for row in rows:
        name, _, message = told[row["node"]]
        found[name][row["position"] - message] = (row["verdict"], *row["violations"])
    return found


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_and_the_innocent_are_not_blamed(
    faulty: dict[str, dict[int, tuple[str, ...]]], name: str
) -> None:
    assert faulty[name].pop(0) == FAULTS[name][1]
    assert set(faulty[name].values()) == {("settled",)}


@pytest.mark.parametrize("name", STORIES)
def test_the_audit_finds_what_was_planted_and_nothing_else(judged: Judged, name: str) -> None:
    history, found = judged.stories[name]
    assert {place: (row["verdict"], *row["violations"]) for place, row in found.rows.items()} == history.verdicts
    assert found.gaps == history.gaps


@pytest.mark.parametrize("most", [PART_EVENTS, 500, 300])
@pytest.mark.parametrize(
    ("damage", "gap"),
    [
        pytest.param(lambda data: data[:40] + b"x" + data[41:], ("damaged segment", 0, 500), id="block"),
        pytest.param(lambda data: b"x" + data[1:], ("damaged segment", 0, 1000), id="mark"),
        pytest.param(lambda data: data[:-1], ("damaged segment", 500, 500), id="end"),
        pytest.param(lambda data: data[: next(blocks(data)).end], ("damaged segment", 500, 500), id="between blocks"),
        pytest.param(lambda data: data + data[next(blocks(data)).end :], None, id="twice"),
        pytest.param(lambda data: START + data[next(blocks(data)).end :], ("damaged segment", 0, 1000), id="begin"),
        pytest.param(
            lambda data: START + owned("node", 2) + data[len(START) :], ("damaged segment", 0, 1000), id="boot"
        ),
        pytest.param(
            lambda data: START + owned("edon", 1) + data[len(START) :], ("damaged segment", 0, 1000), id="node"
        ),
    ],
)
def test_a_damaged_segment_is_a_gap_and_the_rest_is_audited(
    tmp_path: Path, damage: Callable[[bytes], bytes], gap: tuple[str, int, int] | None, most: int
) -> None:
    """Two segments, of which the first has two blocks of 500 events: one part, two, or four that divide blocks."""
    first = 1 << 40

    def segment(begin: int, *records: list[tuple[object, ...]]) -> None:
        each = [encode_block(msgspec.msgpack.encode(each), begin + 500 * at, 500) for at, each in enumerate(records)]
        name = SegmentName("node", 1, begin, begin + 500 * len(records) - 1)
        (tmp_path / str(name)).write_bytes(START + b"".join(each))

    numbers = list(range(first, first + 500))
    routed = (ROUTE, 1, b"/", b"q", first, first, 499, 1)
    segment(1, [(BOOT, 1, b"node", 0, 0, 0), routed], [(CONFIRM, 2, b"/", b"c", 1, [first, 500])])
    segment(1001, [(ACK, 3, b"/", b"q", numbers, 0)])
    victim = min(tmp_path.iterdir())
    victim.write_bytes(damage(victim.read_bytes()))
    found = audit(map(reduce, parts_of(str(tmp_path), most=most)))
    gaps = [] if gap is None else [(*gap, victim.name)]
    assert [(each.kind, each.after, each.lost, each.file) for each in found.gaps] == gaps
    verdicts = Counter(row["verdict"] for row in found.rows.to_pylist() if row["queue"] is not None)
    assert verdicts == {"settled": 500}


def test_a_node_of_which_not_an_event_can_be_read_is_a_gap(tmp_path: Path) -> None:
    """Such as a file under another node's name."""
    made = write(tmp_path, 4000)
    (path, *_) = sorted(tmp_path.iterdir())
    name = parse_name(path.name) or NO_NAME
    path.rename(tmp_path / str(name._replace(node="elsewhere")))
    found = audit(map(reduce, parts_of(str(tmp_path))))
    (damaged,) = (gap for gap in found.gaps if gap.node == "elsewhere")
    assert (damaged.kind, damaged.lost) == ("damaged segment", name.last - name.first + 1)
    assert sum(boot.events for boot in found.boots) == made.events - (damaged.lost or 0)
    assert len(found.in_doubt) == len(found.gaps)


@pytest.mark.parametrize("named", [True, False], ids=["named", "not named"])
def test_two_segments_in_place_of_each_other_are_gaps(tmp_path: Path, *, named: bool) -> None:
    """Their names say what is missing, whatever is in them. Segments of early releases do not say whose they are."""
    made = write(tmp_path, 4000)
    for path in () if named else tmp_path.iterdir():
        data = path.read_bytes()
        path.write_bytes(START + data[len(START) + len(owned(NODE, 1)) :])
    whole = audit(map(reduce, parts_of(str(tmp_path))))
    one, two, *_ = sorted(tmp_path.iterdir())
    content = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(content)
    found = audit(map(reduce, parts_of(str(tmp_path))))
    gaps = {gap.file: gap.lost for gap in found.gaps if gap.file is not None}
    names = [parse_name(path.name) or NO_NAME for path in (one, two)]
    assert gaps == {str(name): name.last - name.first + 1 for name in names}
    events = [sum(boot.events for boot in each.boots) for each in (whole, found)]
    assert events == [made.events, made.events - sum(gap or 0 for gap in gaps.values())]


def test_a_message_keeps_its_number_in_all_its_places(judged: Judged) -> None:
    rows = judged.stories["to_the_end_of_a_quorum_queue"][1].rows
    places = sorted(rows)
    assert {rows[place]["msg_id"] for place in places} == {places[0][1]}
    assert [rows[place]["how"] for place in places] == ["move"] * 5 + [None]
    assert all(row["confirm_ts"] is not None for row in rows.values())


def test_the_evidence_says_where_to_look(judged: Judged) -> None:
    (row,) = judged.stories["the lost end had not reached the disk"][1].rows.values()
    assert row["evidence"] == "last: route in boot 1, event 5; absent from the record at boot 2, event 2"
    assert (row["boots"], row["deliver_count"], row["ack_count"]) == ([1], 0, 0)


def test_a_finding_says_which_message_it_is(judged: Judged) -> None:
    (lost,) = judged.stories["an_order_that_is_lost"][1].rows.values()
    assert (lost["size_bytes"], lost["properties"]) == (512, '{"message_id": "order-17"}')
    (unnamed,) = judged.stories["gone_at_an_orderly_stop"][1].rows.values()
    assert (unnamed["size_bytes"], unnamed["properties"]) == (1, None)
    whole = judged.stories["to_the_end_of_a_quorum_queue"][1].rows.values()
    assert {(row["size_bytes"], row["properties"]) for row in whole} == {(None, None)}


def test_a_log_with_a_little_of_everything_comes_to_what_was_planted(judged: Judged) -> None:
    planted = dict(judged.made.planted)
    assert judged.violations == planted.pop(VIOLATIONS)
    assert {verdict: judged.verdicts[verdict] for verdict in planted} == planted


def test_a_timeline_has_all_events_of_a_finding_and_few_others_are_read(tmp_path: Path) -> None:
    write(tmp_path, 60_000)
    parts = parts_of(str(tmp_path), most=5_000)
    found, read = found_in(audit(map(reduce, parts)).rows), list[Part]()

    def here(function: Callable[[Part], Any], chosen: Sequence[Part]) -> Iterator[Any]:
        read.extend(chosen)
        return map(function, chosen)

    told = defaultdict[tuple[str, int], set[int]](set)
    for row in timelines(here, parts, found).to_pylist():
        told[row["queue"], row["position"]].add(row["moment"])
    of_message = dict(zip(found.column("position").to_pylist(), found.column("msg_id").to_pylist(), strict=True))
    happened = defaultdict[tuple[str | None, int], set[int]](set)
    for part in parts:
        for batch in part.batches(("boot", "seq", "kind", "queue", "msg_id", "position"), []):
            chosen = (pc.is_in(batch.column(name), pa.array(of_message)) for name in ("position", "msg_id"))
            for row in batch.filter(pc.or_(*chosen)).to_pylist():
                place = (None, row["msg_id"]) if row["kind"] in OF_MESSAGES else (row["queue"], row["position"])
                happened[place].add(row["boot"] << SEQ_BITS | row["seq"])
    assert len(told) == SAMPLES
    assert told == {copy: happened[copy] | happened[None, of_message[copy[1]]] for copy in told}
    assert sum(part.events for part in read) < events_in(parts) / 2
