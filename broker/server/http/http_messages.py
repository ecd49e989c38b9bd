"""What is asked by HTTP, and what is answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from broker.server.http.segment_files import FileSlice
from broker.session.peer import Peer

PARAMETERS_MAX = 200


class Request(NamedTuple):
    """A request without a body. `path` has what is between slashes, decoded; names of headers are in lower case."""

    method: str
    path: tuple[str, ...]
    parameters: list[tuple[str, str]]
    headers: Mapping[bytes, bytes]
    peer: Peer


class Answer(NamedTuple):
    """A status, headers and a body; the body of an answer to HEAD is measured, and not sent.

    `delay`: seconds for which it is held back. `admitted`: the request had valid credentials.
    """

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | FileSlice = b""
    delay: float = 0.0
    admitted: bool = False

    def close(self) -> None:
        """Let go of the file, if there is one."""
        if isinstance(self.body, FileSlice):
            self.body.close()


def read_target(target: bytes) -> tuple[tuple[str, ...], list[tuple[str, str]]]:
    """The path and the parameters of a request's target. Raises ValueError."""
    parts = urlsplit(target.decode("ascii"))
    if not parts.path.startswith("/"):
        raise ValueError("no path")
    parameters = parse_qsl(
        parts.query, keep_blank_values=True, strict_parsing=bool(parts.query), max_num_fields=PARAMETERS_MAX
    )
    return tuple(unquote(part) for part in parts.path[1:].split("/")), parameters


def in_json(value: object, *headers: tuple[str, str]) -> Answer:
    """The answer 200 with a value."""
    return Answer(200, (("Content-Type", "application/json"), *headers), msgspec.json.encode(value))


def problem(status: int, error: str, reason: str, *headers: tuple[str, str]) -> Answer:
    """An answer that says what is wrong, in the form of RabbitMQ's management plugin."""
    body = msgspec.json.encode({"error": error, "reason": reason})
    return Answer(status, (("Content-Type", "application/json"), *headers), body)
