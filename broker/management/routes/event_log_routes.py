"""The event log by HTTP: `/api/events` lists sealed segments, `/api/events/NAME` is one of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from broker.management.access import Tag
from broker.management.api_call import ApiCall
from broker.management.resources import Resource, resource
from broker.management.responses import Problem, bad_request, in_json, not_found
from broker.management.segment_files import FileSlice, SegmentFile
from leveret_events.segment_names import SegmentName, parse_name

LISTED = 100
LISTED_MAX = 1000

_RANGE = re.compile("bytes=([0-9]{0,18})-([0-9]{0,18})")


class UnsatisfiableRange(Exception):
    """A range that starts after the end."""


class SegmentResponse(Response):
    """Bytes of a segment, read in chunks while they are sent."""

    def __init__(self, status: int, headers: Mapping[str, str], content: FileSlice) -> None:
        super().__init__(None, status, {**headers, "content-length": str(len(content))})
        self._content = content

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            if scope["method"] != "HEAD":
                while chunk := await self._content.read():
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            self._content.close()


async def list_segments(call: ApiCall) -> Response:
    """List a page of sealed segments in order. Raises OSError."""
    try:
        after, limit = _place(call.request)
    except ValueError as error:
        raise bad_request(str(error)) from None
    found, more = await call.api.segments.behind(after, limit)
    headers = {}
    if more:
        after |= {segment.name.node: segment.name for segment in found}
        query = urlencode([*(("after", str(name)) for name in after.values()), ("limit", limit)])
        headers["link"] = f'</api/events?{query}>; rel="next"'
    return in_json([_shown(segment) for segment in found], headers)


async def show_segment(call: ApiCall) -> Response:
    """Send a segment, or a range of it. Raises OSError."""
    parsed = parse_name(call.names["segment"])
    segment = None if parsed is None else await call.api.segments.find(parsed)
    if segment is None:
        raise not_found()
    tag = f'"{segment.sha256}"'
    given = call.request.headers
    if _matches(given.get("if-none-match", ""), tag):
        return Response(None, 304, {"etag": tag})
    try:
        wanted = _range(given, segment.size, tag)
    except UnsatisfiableRange:
        size = {"content-range": f"bytes */{segment.size}"}
        raise Problem(416, "range_not_satisfiable", f"The segment has {segment.size} bytes", size) from None
    start, end = wanted or (0, segment.size)
    headers = {"content-type": "application/octet-stream", "accept-ranges": "bytes", "etag": tag}
    if wanted:
        headers["content-range"] = f"bytes {start}-{end - 1}/{segment.size}"
    try:
        content = await call.api.segments.open(segment, start, end)
    except FileNotFoundError:
        raise not_found() from None
    return SegmentResponse(206 if wanted else 200, headers, content)


def _place(request: Request) -> tuple[dict[str, SegmentName], int]:
    """Parse the query: the last known segment of each node, and the limit. Raises ValueError."""
    after: dict[str, SegmentName] = {}
    limit = LISTED
    for key, value in request.query_params.multi_items():
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


def _shown(segment: SegmentFile) -> dict[str, str | int]:
    name = segment.name
    return {"name": str(name), **name._asdict(), "bytes": segment.size, "sha256": segment.sha256}


def _matches(tags: str, tag: str) -> bool:
    """Return True if If-None-Match has this tag."""
    listed = [each.strip().removeprefix("W/") for each in tags.split(",")]
    return tag in listed or listed == ["*"]


def _range(headers: Mapping[str, str], size: int, tag: str) -> tuple[int, int] | None:
    """Parse the header Range to its first byte and the byte after its last one; None for all bytes.

    It is None as well for a range that may be ignored (RFC 9110, 14.2): other units, several ranges, or an If-Range of
    other contents. Raises UnsatisfiableRange.
    """
    found = _RANGE.fullmatch(headers.get("range", ""))
    if found is None or headers.get("if-range", tag) != tag:
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


RESOURCES: list[Resource] = [
    resource("/api/events", waits=True, GET=(Tag.MONITORING, list_segments)),
    resource("/api/events/{segment}", waits=True, GET=(Tag.MONITORING, show_segment)),
]
