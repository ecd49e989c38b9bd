"""Long work goes in short steps, and comes to what it would come to at once.

Steps are counted, with things of which each takes a step's time, however fast the machine.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from time import thread_time
from typing import Any

import pytest
import trio

from broker.admin.json_input.body_parts import BodyParts
from broker.admin.json_input.json_reader import read_json, read_object
from broker.admin.short_steps import AT_ONCE, PAUSES, STEP_SECONDS, Pauses, in_steps, mapped
from broker.admin.views.columns import Columns
from broker.management.list_query import first_in_order, list_response, read_list_query
from broker.management.prometheus.exposition import exposition
from broker.management.prometheus.metric_groups import GAUGE, Labels, Measure, MetricGroup
from broker.management.request_client import SCOPE_KEY, RequestClient
from broker.management.work_slots import WorkSlots
from broker.session.peer import Peer

THINGS = range(100)
TOUCHED = 0


def slow(thing: int) -> str:
    """Something that takes as long as a step may; it is counted."""
    global TOUCHED
    TOUCHED += 1
    until = thread_time() + STEP_SECONDS
    while thread_time() <= until:
        pass
    return f"{thing:03}"


def quick(thing: int) -> str:
    return str(thing)


class Steps(trio.abc.Instrument):
    """Counts of things touched in each step of a task, and in each turn of the event loop."""

    def __init__(self) -> None:
        self.of_tasks: list[int] = []
        self.of_turns = [0]
        self._before = TOUCHED

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._before = TOUCHED

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.of_tasks.append(TOUCHED - self._before)
        self.of_turns[-1] += TOUCHED - self._before

    def after_io_wait(self, timeout: float) -> None:
        self.of_turns.append(0)


async def counted(work: Callable[[], Awaitable[object]], together: int = 1) -> Steps:
    """The steps of some work, or of several such pieces at the same time."""
    steps = Steps()
    trio.lowlevel.add_instrument(steps)
    async with trio.open_nursery() as nursery:
        for _ in range(together):
            nursery.start_soon(work)
    trio.lowlevel.remove_instrument(steps)
    return steps


async def listed(order: Callable[[int], str] | None = None, **asked: str) -> None:
    query = read_list_query(asked, paged=True)
    answer = await list_response(THINGS, Columns({"slow": slow, "quick": quick}), query, slow, order)
    client = RequestClient(Peer("127.0.0.1", 1, "127.0.0.1", 2, True), lambda: None, WorkSlots(1, 1))
    await answer({"type": "http", "method": "GET", "headers": [], "extensions": {SCOPE_KEY: client}}, nothing, taken)


async def nothing() -> dict[str, Any]:
    raise AssertionError("an answer asks for nothing")


async def taken(message: MutableMapping[str, Any]) -> None:
    """A client that takes what it is sent."""


async def scraped(*, apart: bool) -> None:
    labels = Labels[int](("thing",), lambda thing: (slow(thing),))
    measures = (Measure("things", GAUGE, "Things"),)
    group = MetricGroup("things", lambda: THINGS, labels, measures, lambda thing: (len(slow(thing)),))
    async for _ in exposition(group.apart("x_") if apart else group.summed("x_")):
        pass


async def drawn() -> None:
    async for _ in in_steps(map(slow, THINGS)):
        pass


@pytest.mark.parametrize(
    ("work", "touched", "most"),
    [
        (lambda: listed(), 100, 1),
        (lambda: listed(order=slow, columns="quick"), 100, AT_ONCE),
        (lambda: listed(sort="slow", columns="quick"), 100, AT_ONCE),
        (lambda: listed(page="1", name="9", columns="quick"), 100, AT_ONCE),
        (lambda: listed(page="1", name="9.*9", use_regex="true", columns="quick"), 100, 1),
        (lambda: listed(page="1", page_size="10"), 10, 1),
        (lambda: scraped(apart=True), 200, 2),
        (lambda: scraped(apart=False), 100, 1),
        (lambda: mapped(slow, THINGS), 100, AT_ONCE),
        (drawn, 100, 1),
    ],
)
async def test_no_step_touches_many(work: Callable[[], Awaitable[object]], touched: int, most: int) -> None:
    steps = await counted(work)
    assert (sum(steps.of_tasks), max(steps.of_tasks)) == (touched, most)


async def test_works_at_the_same_time_share_their_steps() -> None:
    """After the first step of each there is never more than one in a turn of the event loop."""
    steps = await counted(drawn, together=5)
    first, *others = filter(None, steps.of_turns)
    assert (first, max(others), len(others)) == (5, 1, 5 * len(THINGS) - 5)


async def test_pauses_are_as_long_as_steps_while_the_disk_is_busy(autojump_clock: trio.testing.MockClock) -> None:
    began = trio.current_time()
    await drawn()
    assert trio.current_time() == began
    PAUSES.set(Pauses(lambda: True))
    await drawn()
    assert trio.current_time() >= began + len(THINGS) * STEP_SECONDS * 0.99


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("end", [0, 1, 700, 2000])
async def test_what_is_sorted_in_parts_is_in_order(end: int, reverse: bool) -> None:
    """Equals stay in the order in which they came, as with `sorted`."""
    things = [(number * 7919) % 1201 for number in range(1301)]
    found = await first_in_order(things, lambda thing: thing // 3, end, reverse=reverse)
    assert found == sorted(things, key=lambda thing: thing // 3, reverse=reverse)[:end]


@pytest.mark.parametrize(
    "value", [{}, {"a": []}, {"a": [1, [2], {"b": None}], "c": {"d": [True]}, "e": "x"}, {"\udcff": ["\ud800"]}]
)
@pytest.mark.parametrize("indent", [None, 2])
async def test_a_large_object_is_read_part_by_part(value: dict[str, Any], indent: int | None) -> None:
    text = f" {json.dumps(value, indent=indent)}\n".encode()
    assert (
        await read_object(BodyParts(text), dict.fromkeys(value, list), lambda name, number, row: row)
        == await read_json(BodyParts(text))
        == value
    )
    texts = {name: member if isinstance(member, str) else None for name, member in value.items()}
    assert await read_object(BodyParts(text), {}, lambda name, number, row: row) == texts


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1]",
        "null",
        '{"a"}',
        '{"a":1,}',
        "{,}",
        "{1:2}",
        '{"a":1 "b":2}',
        '{"a":1}}',
        '{"a":NaN}',
        '{"a":[1,]}',
    ]
    + ['{"a":[,]}', '{"a":[1 2]}', '{"a":[1', '{"a":[1}', '{"a":"\x01"}', '{"a":"\xff"}', '{"a":' + "[" * 100_000],
)
async def test_what_is_no_object_is_not_read(text: str) -> None:
    with pytest.raises(ValueError):
        await read_object(BodyParts(text.encode("latin-1")), {"a": list}, lambda name, number, row: row)
