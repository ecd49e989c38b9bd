"""Bodies of requests: JSON objects with a size limit, parsed in short steps, few large ones at a time."""

from __future__ import annotations

from typing import Any

from starlette.requests import ClientDisconnect, Request

from broker.admin.json_input.body_parts import BodyParts
from broker.admin.json_input.json_reader import read_json
from broker.admin.json_input.strict_json import UnreadableJson
from broker.admin.json_tables import table
from broker.admin.kinds.values import NAME_BYTES_MAX
from broker.freed_memory import give_freed_memory_back
from broker.management.responses import Problem, bad_request
from broker.management.work_slots import WorkSlots
from broker.wire.field_tables import Table, encode_table

LARGE_BYTES = 256 * 1024
LARGE_AT_ONCE = 4
"""Bodies larger than LARGE_BYTES that are read at a time; half as many of one address."""
HUGE_BYTES = 4 << 20
"""Smallest body before which freed memory is given back, so that it does not add to what the last ones left."""
BODY_BYTES_MAX = 1 << 20
"""Limit of a body without a message or definitions: far more than names, arguments and settings take, and small enough
that each of its texts can be handled in one step."""
NOT_JSON = "not_json"
ECHO_CHARACTERS = 1000
"""Characters of an invalid value that an error repeats."""
ERLANG_LINE = 79
"""Longest term that Erlang prints on one line."""


class RequestBodies:
    """Reads bodies of at most `bytes_max` bytes. Few large ones are read at a time, so that memory stays bounded."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._large = WorkSlots(LARGE_AT_ONCE, LARGE_AT_ONCE // 2)

    async def read(self, request: Request, bytes_max: float = float("inf")) -> BodyParts:
        """Read a body of at most `bytes_max` bytes, if that is less. Raises Problem 413 or 408."""
        most = int(min(bytes_max, self._bytes_max))
        announced = request.headers.get("content-length", "")
        size = int(announced) if announced.isdecimal() else None
        if size is not None and size > most:
            raise _too_large(most)
        if size is not None and size <= LARGE_BYTES:
            return await _read(request, most)
        async with self._large.slot(request.scope["client"][0]):
            if size is None or size >= HUGE_BYTES:
                give_freed_memory_back()
            return await _read(request, most)


async def _read(request: Request, bytes_max: int) -> BodyParts:
    body = BodyParts()
    try:
        async for part in request.stream():
            body.append(part)
            if len(body) > bytes_max:
                raise _too_large(bytes_max)
    except ClientDisconnect:
        raise Problem(408, "request_timeout", "the request did not arrive in time") from None
    return body


def _too_large(bytes_max: int) -> Problem:
    return Problem(413, "content_too_large", f"the body is larger than {bytes_max} bytes")


async def json_object(body: BodyParts, *, long_as_bytes: bool = False) -> dict[str, Any]:
    """Parse a JSON object; the body is used up. An empty body, and null, are an empty object. Raises Problem 400.

    With `long_as_bytes` long texts are returned as bytes, as a message needs them.
    """
    if not body.first(LARGE_BYTES).strip():
        return {}
    try:
        value = await read_json(body, long_as_bytes=long_as_bytes)
    except UnreadableJson as error:
        raise bad_request(f"{NOT_JSON}: {error}") from None
    except ValueError:
        raise bad_request(NOT_JSON) from None
    if value is None:
        return {}
    if isinstance(value, str | bytearray):
        raise bad_request(
            "invalid payload: the request body JSON-decoded to a string. Is the input doubly-JSON-encoded?"
        )
    if not isinstance(value, dict):
        raise bad_request(NOT_JSON)
    return value


class BodyFields:
    """The values of a body, checked when they are read. Every method raises Problem 400 for an invalid value.

    `table_bytes_max` is the largest size of an AMQP table.
    """

    def __init__(self, values: dict[str, Any], table_bytes_max: int) -> None:
        self.values = values
        self.table_bytes_max = table_bytes_max

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def require(self, *names: str) -> None:
        """Raise Problem 400 unless all of these are given."""
        missing = [name for name in names if name not in self.values]
        if missing:
            terms = [f"{{key_missing,{name}}}" for name in missing]
            line = "[" + ",".join(terms) + "]"
            raise bad_request(line if len(line) <= ERLANG_LINE else "[" + ",\n ".join(terms) + "]")

    def text(self, name: str, default: str = "") -> str:
        """A text."""
        value = self.values.get(name, default)
        if not isinstance(value, str):
            raise bad_request(["not_string", name])
        return value

    def short_text(self, name: str, default: str = "") -> str:
        """A text that fits an AMQP short string."""
        value = self.values.get(name)
        if isinstance(value, bytearray):
            raise _too_long(name, len(value))
        return short(self.text(name, default), name)

    def flag(self, name: str, *, default: bool = False) -> bool:
        """A boolean, which may be given as text."""
        value = self.values.get(name, default)
        value = {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value
        if not isinstance(value, bool):
            raise bad_request(["not_boolean", value])
        return value

    def number(self, name: str, default: int = 0) -> int:
        """An integer, which may be given as text; a fraction is truncated, as by RabbitMQ."""
        value = self.values.get(name, default)
        if not isinstance(value, int | float | str) or isinstance(value, bool):
            raise bad_request(["not_integer", value])
        try:
            return int(value)
        except (ValueError, OverflowError):
            raise bad_request(["not_integer", value]) from None

    def table(self, name: str) -> dict[str, Any]:
        """An object; an empty list is an empty object."""
        value = self.values.get(name, {})
        if value == []:
            return {}
        if not isinstance(value, dict):
            raise bad_request(["not_a_table", name])
        return value

    def amqp_table(self, name: str) -> Table:
        """An object as an AMQP table, which has to fit a frame and may not contain null, as in RabbitMQ."""
        values = self.table(name)
        if _has_null(values):
            raise bad_request("null_not_allowed")
        try:
            made = table(values)
        except (OverflowError, ValueError) as error:
            raise bad_request(str(error)) from None
        size = len(encode_table(made))
        if size > self.table_bytes_max:
            most = f"the limit is {self.table_bytes_max} (limits.frame_max_bytes)"
            raise bad_request(f"{name}: as an AMQP table it takes {size} bytes; {most}")
        return made


def short(text: str, what: str) -> str:
    """Return a text, if it fits an AMQP short string. Raises Problem 400."""
    size = len(encoded_text(text, what))
    if size > NAME_BYTES_MAX:
        raise _too_long(what, size)
    return text


def _too_long(what: str, size: int) -> Problem:
    return bad_request(f"{what} should be less than {NAME_BYTES_MAX} bytes, actually was {size}\n")


def encoded_text(text: str, what: str) -> bytes:
    """The bytes of a text. Raises Problem 400 for half of a surrogate pair."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise bad_request(f"{what}: a text holds half of a surrogate pair") from None


def _has_null(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_null, value.values()))
    return any(map(_has_null, value)) if isinstance(value, list) else value is None
