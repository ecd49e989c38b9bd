"""Bodies of requests: JSON objects, read up to a limit, large ones few at a time."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import trio
from starlette.requests import ClientDisconnect, Request

from broker.admin.command_arguments import NAME_BYTES_MAX
from broker.admin.json_tables import table
from broker.management.answers import Problem, bad_request
from broker.management.json_reader import read_object
from broker.wire.field_tables import Table

LARGE_BYTES = 256 * 1024
AT_ONCE_BYTES = 64 * 1024
"""Up to this size a body is read in one step: some 0.3 ms."""
NOT_JSON = "not_json"
ERLANG_LINE = 80
"""How long a term may be that Erlang prints on one line."""


class Bodies:
    """Reads bodies of at most `bytes_max`; two large ones at a time, so that memory stays bounded."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._large = trio.CapacityLimiter(2)

    async def read(self, request: Request) -> bytes:
        """A request's body. Raises Problem 413 or 408."""
        announced = request.headers.get("content-length", "")
        if announced.isdecimal() and int(announced) <= LARGE_BYTES:
            return await self._read(request)
        async with self._large:
            return await self._read(request)

    async def _read(self, request: Request) -> bytes:
        parts: list[bytes] = []
        size = 0
        try:
            async for part in request.stream():
                size += len(part)
                if size > self._bytes_max:
                    raise Problem(413, "content_too_large", f"the body is larger than {self._bytes_max} bytes")
                parts.append(part)
        except ClientDisconnect:
            raise Problem(408, "request_timeout", "the request did not arrive in time") from None
        return b"".join(parts)


async def json_object(body: bytes) -> dict[str, Any]:
    """The object that a body is; nothing, and null, are an empty one. Raises Problem 400."""
    if len(body) <= AT_ONCE_BYTES:
        return _small_object(body)
    try:
        return await read_object(body)
    except (ValueError, RecursionError):
        raise bad_request(NOT_JSON) from None


def _small_object(body: bytes) -> dict[str, Any]:
    if not body.strip():
        return {}
    try:
        value = msgspec.json.decode(body)
    except msgspec.DecodeError:
        value = _with_escapes(body)
    except RecursionError:
        raise bad_request(NOT_JSON) from None
    if value is None:
        return {}
    if isinstance(value, str):
        raise bad_request(
            "invalid payload: the request body JSON-decoded to a string. Is the input doubly-JSON-encoded?"
        )
    if not isinstance(value, dict):
        raise bad_request(NOT_JSON)
    return value


def _with_escapes(body: bytes) -> Any:
    """The same by another reader, which takes escapes of lone surrogates: that is how names that are not UTF-8 come."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise bad_request(NOT_JSON) from None


class Fields:
    """The values of a body, read and checked one by one. What cannot be used raises Problem 400."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def require(self, *names: str) -> None:
        """All of these are there."""
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
        return short(self.text(name, default), name)

    def flag(self, name: str, *, default: bool = False) -> bool:
        """True or false, which may be written as texts."""
        value = self.values.get(name, default)
        value = {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value
        if not isinstance(value, bool):
            raise bad_request(["not_boolean", value])
        return value

    def number(self, name: str, default: int = 0) -> int:
        """A whole number, which may be written as a text; a fraction is cut off, as by RabbitMQ."""
        value = self.values.get(name, default)
        if not isinstance(value, int | float | str) or isinstance(value, bool):
            raise bad_request(["not_integer", value])
        try:
            return int(value)
        except (ValueError, OverflowError):
            raise bad_request(["not_integer", value]) from None

    def table(self, name: str) -> dict[str, Any]:
        """Names with values; an empty list is an empty table."""
        value = self.values.get(name, {})
        if value == []:
            return {}
        if not isinstance(value, dict):
            raise bad_request(["not_a_table", name])
        return value

    def amqp_table(self, name: str) -> Table:
        """Names with values as an AMQP table. It may hold no null, as in RabbitMQ."""
        values = self.table(name)
        if _has_null(values):
            raise bad_request("null_not_allowed")
        try:
            return table(values)
        except (OverflowError, ValueError) as error:
            raise bad_request(str(error)) from None


def short(text: str, what: str) -> str:
    """A text, if it fits an AMQP short string. Raises Problem 400."""
    size = len(text.encode("utf-8", "surrogateescape"))
    if size > NAME_BYTES_MAX:
        raise bad_request(f"{what} should be less than {NAME_BYTES_MAX} bytes, actually was {size}\n")
    return text


def _has_null(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_null, value.values()))
    return any(map(_has_null, value)) if isinstance(value, list) else value is None
