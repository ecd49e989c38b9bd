"""Sharing of work between requests at the same time, and rows cut down to the columns asked for."""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from broker.admin.views.columns import ABSENT, Columns, chosen
from broker.management.work_slots import WorkSlots


async def test_an_address_has_one_place_and_leaves_the_others() -> None:
    """Ten of one address wait for each other; who comes last from elsewhere waits for none of them."""
    slots, entered = WorkSlots(2, 1), list[str]()
    go_on = trio.Event()

    async def work(address: str) -> None:
        async with slots.slot(address):
            entered.append(address)
            await go_on.wait()

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(work, "many")
        await wait_all_tasks_blocked()
        nursery.start_soon(work, "alone")
        await wait_all_tasks_blocked()
        assert sorted(entered) == ["alone", "many"]
        nursery.start_soon(work, "third")
        await wait_all_tasks_blocked()
        assert "third" not in entered
        go_on.set()
    assert sorted(entered) == ["alone", *["many"] * 10, "third"]


async def test_who_gives_up_waiting_holds_no_place() -> None:
    slots = WorkSlots(1, 1)
    async with slots.slot("a"):
        with trio.move_on_after(0):
            async with slots.slot("a"):
                raise AssertionError("there is one place")
        with trio.move_on_after(0):
            async with slots.slot("b"):
                raise AssertionError("there is one place")
    for address in ("a", "b"):
        async with slots.slot(address):
            pass


ROW = {"a": {"b": {"c": 1, "d": 2}, "e": 3}, "f": 4, "g": {}}


@pytest.mark.parametrize(
    ("wanted", "left"),
    [
        ("", ROW),
        ("f", {"f": 4}),
        ("a.b", {"a": {"b": {"c": 1, "d": 2}}}),
        ("a.b.c,a.e", {"a": {"b": {"c": 1}, "e": 3}}),
        ("a.b.c,a.b", {"a": {"b": {"c": 1, "d": 2}}}),
        ("a.b,a.b.c", {"a": {"b": {"c": 1, "d": 2}}}),
        ("a.e,a", {"a": ROW["a"]}),
        ("f.x", {"f": 4}),
        ("a.x,x,x.y", []),
        ("g", {"g": {}}),
        ("g.x", []),
        ("a" + ".b" * 4000, []),
    ],
)
def test_columns_that_lead_into_others(wanted: str, left: object) -> None:
    assert chosen(ROW, filter(None, wanted.split(","))) == left


def test_a_sort_by_what_is_not_there() -> None:
    columns = Columns[object]({"a": lambda thing: {"b": 1}})
    assert columns.getter("a.b")(None) == 1
    assert columns.getter("a" + ".b" * 4000)(None) is ABSENT
