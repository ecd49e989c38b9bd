"""Lists: which columns, in which order, filtered by name, and which page of them. RabbitMQ's query parameters.

Lists are worked out in bounded steps: between two of them other clients have a turn.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

import trio
from starlette.responses import Response

from broker.entities.arguments.name_patterns import InvalidPattern, PatternError, compiled
from broker.management.answers import JsonAnswer, Problem, bad_request, encoded
from broker.management.columns import ABSENT, Columns

T = TypeVar("T")

PAGE_SIZE = 100
PAGE_SIZE_MAX = 500
ROWS_JOINED = 1000
STEP_SECONDS = 0.001
"""How long a list is worked on before others have a turn."""


class Page(NamedTuple):
    """The page that was asked for, from 1; and the names it is of, by a substring or by a regular expression."""

    number: int
    size: int
    name: str
    use_regex: bool


class ListQuery(NamedTuple):
    """What was asked of a list. `columns` is empty for all; `sort` is empty for the usual order."""

    columns: tuple[str, ...]
    sort: str
    reverse: bool
    page: Page | None


def read_list_query(parameters: Mapping[str, str], *, paged: bool) -> ListQuery:
    """The query parameters of a list. Raises Problem 400."""
    columns = tuple(name for name in parameters.get("columns", "").split(",") if name)
    page = _page(parameters) if paged and "page" in parameters else None
    return ListQuery(columns, parameters.get("sort", ""), parameters.get("sort_reverse") == "true", page)


def _page(parameters: Mapping[str, str]) -> Page:
    try:
        number, size = int(parameters["page"]), int(parameters.get("page_size") or PAGE_SIZE)
    except ValueError:
        raise bad_request("Pagination parameters are invalid") from None
    if number < 1 or not 1 <= size <= PAGE_SIZE_MAX:
        text = f"page and page_size must be numbers from 1, page_size up to {PAGE_SIZE_MAX}"
        raise Problem(400, "invalid_pagination_parameters", text)
    return Page(number, size, parameters.get("name", ""), parameters.get("use_regex") == "true")


async def list_answer(things: Sequence[T], columns: Columns[T], query: ListQuery, name: Callable[[T], str]) -> Response:
    """The list, or a page of it. `name` is what it is filtered by. Raises Problem 400."""
    total = len(things)
    page = query.page
    if page is not None and page.name:
        things = await _filtered(things, page, name)
    if query.sort:
        things = await _sorted(things, columns, query)
    elif query.reverse:
        things = list(reversed(things))
    if page is None:
        return JsonAnswer(_array(await _rows(things, columns, query.columns)))
    count = math.ceil(len(things) / page.size)
    if page.number > max(1, count):
        raise Problem(
            400,
            "page_out_of_range",
            f"page out of range, page: {page.number} page size: {page.size}, len: {len(things)}",
        )
    shown = things[(page.number - 1) * page.size : page.number * page.size]
    head = {
        "filtered_count": len(things),
        "item_count": len(shown),
        "page": page.number,
        "page_count": count,
        "page_size": page.size,
        "total_count": total,
    }
    rows = _array(await _rows(shown, columns, query.columns))
    return JsonAnswer([encoded(head)[:-1], b',"items":', *rows, b"}"])


async def _filtered(things: Sequence[T], page: Page, name: Callable[[T], str]) -> list[T]:
    """Those whose names have the text in them; case counts in regular expressions alone, as in RabbitMQ."""
    if not page.use_regex:
        wanted = page.name.lower()
        return [thing async for thing in in_steps(things) if wanted in name(thing).lower()]
    try:
        pattern = compiled(page.name)
        return [thing async for thing in in_steps(things) if pattern.search(name(thing))]
    except (InvalidPattern, PatternError):
        raise bad_request("Pagination parameters are invalid") from None


async def _sorted(things: Sequence[T], columns: Columns[T], query: ListQuery) -> list[T]:
    keyed = [(_sort_key(columns.value(thing, query.sort)), thing) async for thing in in_steps(things)]
    keyed.sort(key=_first, reverse=query.reverse)
    return [thing for _, thing in keyed]


def _sort_key(value: Any) -> tuple[int, Any]:
    """Things of one kind stand together: what is absent, numbers, texts, others by how they are shown."""
    if value is ABSENT or value is None:
        return 0, 0
    if isinstance(value, bool | int | float):
        return 1, value
    return 2, value if isinstance(value, str) else str(value)


def _first(pair: tuple[tuple[int, Any], Any]) -> tuple[int, Any]:
    return pair[0]


async def _rows(things: Sequence[T], columns: Columns[T], wanted: tuple[str, ...]) -> list[bytes]:
    """Each thing as JSON. One of which nothing is left is an empty list, as in RabbitMQ."""
    return [encoded(columns.row(thing, wanted) or []) async for thing in in_steps(things)]


def _array(rows: list[bytes]) -> list[bytes]:
    """JSON of a list, in pieces of a thousand rows: each is one part of what is compressed and sent."""
    pieces = [b"["]
    for start in range(0, len(rows), ROWS_JOINED):
        pieces += (b"," if start else b"", b",".join(rows[start : start + ROWS_JOINED]))
    return [*pieces, b"]"]


async def in_steps(things: Sequence[T]) -> AsyncIterator[T]:
    """One thing after the other; others have a turn after each millisecond of what is done with them."""
    began = perf_counter()
    for thing in things:
        yield thing
        if perf_counter() - began > STEP_SECONDS:
            await trio.lowlevel.checkpoint()
            began = perf_counter()
