"""Lists: columns, order, filter by name and pages, by RabbitMQ's query parameters. They are computed in short steps."""

from __future__ import annotations

import heapq
import math
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from itertools import compress, islice
from typing import Any, NamedTuple, TypeVar

from starlette.responses import Response

from broker.admin.short_steps import AT_ONCE, in_steps, mapped, pause_if_due
from broker.admin.views.columns import ABSENT, Columns
from broker.entities.arguments.name_patterns import NamePattern, PatternError
from broker.management.responses import JsonResponse, Problem, array_in_pieces, bad_request, encoded

T = TypeVar("T")
Order = Callable[[T], tuple[Any, ...]]

PAGE_SIZE = 100
PAGE_SIZE_MAX = 500
TOTALS_MAX = 32
"""Columns that one request may have summed up."""
SORTED_AT_ONCE = 500
"""Things that are sorted between two checks of the time: this takes some 0.2 ms."""


class Page(NamedTuple):
    """A page, counted from 1, of the things whose name contains a text or matches a regular expression."""

    number: int
    size: int
    name: str
    use_regex: bool
    lenient: bool = False
    """An invalid regular expression matches nothing; otherwise it is refused."""
    keeps: Callable[[Any], bool] | None = None
    """A further filter, None for none."""
    totals: tuple[str, ...] = ()
    """Columns of which the page has the sums, over all that match the filters."""


class ListQuery(NamedTuple):
    """The query parameters of a list. `columns` is empty for all, `sort` for the default order."""

    columns: tuple[str, ...]
    sort: str
    reverse: bool
    page: Page | None


def read_list_query(parameters: Mapping[str, str], *, paged: bool) -> ListQuery:
    """Parse the query parameters of a list. Raises Problem 400."""
    columns = _names(parameters.get("columns", ""))
    page = _page(parameters) if paged and "page" in parameters else None
    return ListQuery(columns, parameters.get("sort", ""), parameters.get("sort_reverse") == "true", page)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


def _page(parameters: Mapping[str, str]) -> Page:
    asked = parameters.get("page_size")
    try:
        number, size = int(parameters["page"]), int(asked or PAGE_SIZE)
    except ValueError:
        raise bad_request("Pagination parameters are invalid") from None
    if number < 1 or not 1 <= size <= PAGE_SIZE_MAX:
        text = f"Invalid pagination parameters: page number {number}, page size {asked or 'undefined'}"
        raise Problem(400, "invalid_pagination_parameters", text)
    totals = _names(parameters.get("totals", ""))
    return Page(number, size, parameters.get("name", ""), parameters.get("use_regex") == "true", totals=totals)


async def list_response(
    things: Sequence[T],
    columns: Columns[T],
    query: ListQuery,
    name: Callable[[T], str],
    order: Order[T] | None = None,
) -> Response:
    """Return the list, or a page of it. Raises Problem 400.

    `name` is the text that filters apply to, `order` the key of the default order; without it `things` are in order.
    """
    total = len(things)
    page = query.page
    if page is None:
        things = await _ordered(things, columns, query, order, total)
        return JsonResponse(_array(things, columns, query.columns))
    if page.keeps:
        things = list(compress(things, await mapped(page.keeps, things)))
    if page.name:
        things = await _filtered(things, page, name)
    count, end = math.ceil(len(things) / page.size), page.number * page.size
    if page.number > max(1, count):  # the first page of an empty list exists
        text = f"Page out of range, page: {page.number} page size: {page.size}, len: {len(things)}"
        raise Problem(400, "page_out_of_range", text)
    shown = (await _ordered(things, columns, query, order, end))[end - page.size : end]
    head: dict[str, Any] = {
        "filtered_count": len(things),
        "item_count": len(shown),
        "page": page.number,
        "page_count": count,
        "page_size": page.size,
        "total_count": total,
    }
    if page.totals:
        head["totals"] = await _totals(things, columns, page.totals[:TOTALS_MAX])
    async with aclosing(_array(shown, columns, query.columns)) as rows:
        return JsonResponse([encoded(head)[:-1], b',"items":', *[piece async for piece in rows], b"}"])


async def _filtered(things: Sequence[T], page: Page, name: Callable[[T], str]) -> list[T]:
    """The things whose names match, regardless of case, as in RabbitMQ."""
    if not page.use_regex:
        wanted = page.name.lower()
        return list(compress(things, await mapped(lambda thing: wanted in name(thing).lower(), things)))
    try:
        pattern = NamePattern("(?i)" + page.name)
        return list(compress(things, await mapped(lambda thing: pattern.search(name(thing)), things, at_once=1)))
    except PatternError:
        if page.lenient:
            return []
        raise bad_request("Pagination parameters are invalid") from None


async def _ordered(
    things: Sequence[T], columns: Columns[T], query: ListQuery, order: Order[T] | None, end: int
) -> Sequence[T]:
    """The first `end` things in the order of the query; equal ones are in the default order."""
    if query.sort:
        value = columns.getter(query.sort)
        usual = order or _same
        return await first_in_order(
            things, lambda thing: (*_sort_key(value(thing)), *usual(thing)), end, reverse=query.reverse
        )
    if order is not None:
        return await first_in_order(things, order, end, reverse=query.reverse)
    return things[::-1] if query.reverse else things


async def _totals(things: Sequence[T], columns: Columns[T], paths: Sequence[str]) -> dict[str, float]:
    """The sums of columns, in one pass: a page asks for some ten of them."""
    values = [(path, columns.getter(path)) for path in paths]
    totals: dict[str, float] = dict.fromkeys(paths, 0)
    async for thing in in_steps(things, at_once=AT_ONCE):
        for path, value in values:
            found = value(thing)
            if isinstance(found, (int, float)):
                totals[path] += found
    return totals


def _same(_: object) -> tuple[()]:
    return ()


async def first_in_order(
    things: Sequence[T], key: Callable[[T], Any], end: int, *, reverse: bool = False
) -> Sequence[T]:
    """Return the first `end` things by a key. They are sorted in parts, which are merged."""
    keys, places = await mapped(key, things), range(len(things))
    parts = []  # one sort of 10,000 things would be a step of several milliseconds
    for start in range(0, len(keys), SORTED_AT_ONCE):
        part = places[start : start + SORTED_AT_ONCE]
        parts.append(sorted(part, key=keys.__getitem__, reverse=reverse)[:end])
        await pause_if_due()
    merged = heapq.merge(*parts, key=keys.__getitem__, reverse=reverse)
    return await mapped(things.__getitem__, islice(merged, end))


def _sort_key(value: Any) -> tuple[int, Any]:
    """A key by which values of any types can be sorted: absent ones, numbers, texts, others by their text."""
    if value is ABSENT or value is None:
        return 0, 0
    if isinstance(value, (int, float)):
        return 1, value
    return 2, value if isinstance(value, str) else str(value)


def _array(things: Sequence[T], columns: Columns[T], wanted: tuple[str, ...]) -> AsyncGenerator[bytes]:
    """JSON of the list in pieces. A row without columns is an empty list, as in RabbitMQ."""
    row = columns.view(wanted)
    return array_in_pieces(row(thing) or [] for thing in things)
