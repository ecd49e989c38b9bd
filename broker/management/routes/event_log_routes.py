"""The event log by HTTP: `/api/events` lists sealed segments, `/api/events/NAME` is one."""

from __future__ import annotations

import re
from functools import partial
from urllib.parse import urlencode

from broker.server.http import http_access
from broker.server.http.http_messages import Answer, Request, in_json, problem
from broker.server.http.segment_files import Segment, SegmentFiles
from broker.session.registry import Registry
from storage.events.event_format import SegmentName, parse_name

LISTED = 100
LISTED_MAX = 1000

NOT_FOUND = problem(404, "Object Not Found", "Not Found")
_METHODS = ("GET", "HEAD")
_RANGE = re.compile(rb"bytes=([0-9]{0,18})-([0-9]{0,18})")


class UnsatisfiableRange(Exception):
    """A range that lies behind the end."""


class EventPages:
    """The routes of the event log, with the access each needs."""

    def __init__(self, registry: Registry, files: SegmentFiles) -> None:
        self._registry = registry
        self._files = files

    async def answer(self, request: Request) -> Answer:
        """Answer a request. Raises OSError when the disk does."""
        match request.path:
            case ("api", "events"):
                resource = self._list
            case ("api", "events", name):
                resource = partial(self._segment, name)
            case _:
                return NOT_FOUND
        if request.method not in _METHODS:
            allow = ("Allow", ", ".join(_METHODS))
            return problem(405, "method_not_allowed", "Method Not Allowed", allow)
        refused = http_access.refusal(self._registry, request)
        return refused or (await resource(request))._replace(admitted=True)

    async def _list(self, request: Request) -> Answer:
        try:
            after, limit = _place(request.parameters)
        except ValueError as error:
            return problem(400, "bad_request", str(error))
        found, more = await self._files.behind(after, limit)
        headers = [("Cache-Control", "no-cache")]
        if more:
            after |= {segment.name.node: segment.name for segment in found}
            query = urlencode([*(("after", str(name)) for name in after.values()), ("limit", limit)])
            headers.append(("Link", f'</api/events?{query}>; rel="next"'))
        return in_json([_shown(segment) for segment in found], *headers)

    async def _segment(self, name: str, request: Request) -> Answer:
        parsed = parse_name(name)
        segment = None if parsed is None else await self._files.find(parsed)
        if segment is None:
            return NOT_FOUND
        tag = f'"{segment.sha256}"'
        if _matches(request.headers.get(b"if-none-match", b""), tag):
            return Answer(304, (("ETag", tag),))
        try:
            wanted = _range(request, segment.size, tag)
        except UnsatisfiableRange:
            size = ("Content-Range", f"bytes */{segment.size}")
            return problem(416, "range_not_satisfiable", f"The segment has {segment.size} bytes", size)
        start, end = wanted or (0, segment.size)
        headers = [("Content-Type", "application/octet-stream"), ("Accept-Ranges", "bytes"), ("ETag", tag)]
        if wanted:
            headers.append(("Content-Range", f"bytes {start}-{end - 1}/{segment.size}"))
        try:
            return Answer(206 if wanted else 200, tuple(headers), await self._files.open(segment, start, end))
        except FileNotFoundError:
            return NOT_FOUND


def _place(parameters: list[tuple[str, str]]) -> tuple[dict[str, SegmentName], int]:
    """Which segments are known, by node, and how many more are wanted. Raises ValueError."""
    after: dict[str, SegmentName] = {}
    limit = LISTED
    for key, value in parameters:
        if key == "after":
            name = parse_name(value)
            if name is None:
                raise ValueError("after is the name of a segment")
            after[name.node] = max(name, after.get(name.node, name))
        elif key == "limit":
            if not re.fullmatch("[0-9]{1,4}", value) or not 1 <= int(value) <= LISTED_MAX:
                raise ValueError(f"limit is a number from 1 to {LISTED_MAX}")
            limit = int(value)
        else:
            raise ValueError("the parameters are after and limit")
    return after, limit


def _shown(segment: Segment) -> dict[str, str | int]:
    name = segment.name
    return {"name": str(name), **name._asdict(), "bytes": segment.size, "sha256": segment.sha256}


def _matches(tags: bytes, tag: str) -> bool:
    """One of the tags of If-None-Match is this one."""
    listed = [each.strip().removeprefix("W/") for each in tags.decode("latin-1").split(",")]
    return tag in listed or listed == ["*"]


def _range(request: Request, size: int, tag: str) -> tuple[int, int] | None:
    """The first byte that is wanted, and the one behind the last; None for all of them.

    So it is also for what we need not understand (RFC 9110, 14.2): other units, several ranges, one of another content.
    Raises UnsatisfiableRange.
    """
    found = _RANGE.fullmatch(request.headers.get(b"range", b""))
    if found is None or request.headers.get(b"if-range", tag.encode()) != tag.encode():
        return None
    first, last = found[1], found[2]
    if first:
        if last and int(last) < int(first):
            return None
        start, end = int(first), min(int(last) + 1, size) if last else size
    elif last:
        start, end = max(0, size - int(last)), size
    else:
        return None
    if start >= end:
        raise UnsatisfiableRange
    return start, end
