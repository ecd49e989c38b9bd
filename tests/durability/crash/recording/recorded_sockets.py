"""Requests to a recorded broker and its answers, from the bytes on its sockets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from broker.wire.frames import PROTOCOL_HEADER
from leveret.testing.power.disk_record import Event
from tests.durability.ledgers.conversation import Answer, Listener, Request, Said

COMMAND = b'{"command": '
"""Beginning of a request to the administration socket; no frame begins so."""
OFFSETS = tuple(method + b" /api/leveret/stream-offsets/" for method in (b"PUT", b"DELETE"))
LENGTH = re.compile(rb"\r\ncontent-length: (\d+)", re.IGNORECASE)
NO_CONTENT = b"HTTP/1.1 204 "


class Conversation:
    """One connection's two directions."""

    def __init__(self) -> None:
        self._listeners = {"r": Listener(), "s": Listener()}
        self._repeated = 0

    def heard(self, kind: str, data: bytes) -> Iterable[Any]:
        """The methods, and methods with content, that are whole now in one direction."""
        if kind == "s":
            repeated = min(self._repeated, len(data))
            self._repeated -= repeated
            data = data[repeated:]
        return self._listeners[kind].hear(data)

    def sent_less(self, size: int) -> None:
        """Take `size` bytes recorded as sent back: they did not leave, and will be sent again."""
        self._repeated += size


class Administration:
    """One connection to the administration socket."""

    def __init__(self) -> None:
        self._lines = {"r": b"", "s": b""}

    def heard(self, kind: str, data: bytes) -> Iterator[Any]:
        """The requests or answers that are whole now."""
        *lines, self._lines[kind] = (self._lines[kind] + data).split(b"\n")
        for line in map(json.loads, lines):
            yield Request(line["command"], line["arguments"]) if kind == "r" else Answer("ok" in line)

    def sent_less(self, size: int) -> None:
        """Answers are short."""
        raise AssertionError(f"an answer of the administration socket was cut by {size} bytes")


class OffsetRequest:
    """One request for committed offsets over HTTP, on a connection of its own."""

    def __init__(self) -> None:
        self._heard = {"r": b"", "s": b""}

    def heard(self, kind: str, data: bytes) -> Iterator[Any]:
        """The request or the answer, if it is whole now."""
        before, self._heard[kind] = self._heard[kind], self._heard[kind] + data
        if not _is_whole(before) and _is_whole(self._heard[kind]):
            yield (
                _offset_request(self._heard[kind]) if kind == "r" else Answer(self._heard[kind].startswith(NO_CONTENT))
            )

    def sent_less(self, size: int) -> None:
        """Answers are short."""
        raise AssertionError(f"an answer over HTTP was cut by {size} bytes")


def _is_whole(data: bytes) -> bool:
    head, end, body = data.partition(b"\r\n\r\n")
    length = LENGTH.search(head)
    return bool(end) and len(body) >= (int(length[1]) if length else 0)


def _offset_request(data: bytes) -> Request:
    head, _, body = data.partition(b"\r\n\r\n")
    method, path, _ = head.decode().split(" ", 2)
    group = path.rpartition("/")[2]
    if method == "DELETE":
        return Request("forget_offsets", {"group": group})
    return Request("commit_offsets", {"group": group, **json.loads(body)})


class Conversations:
    """Every connection of a recorded broker."""

    def __init__(self) -> None:
        self._by_socket: dict[int, tuple[int, Conversation | Administration | OffsetRequest]] = {}
        self._connections = 0

    def end(self) -> None:
        """The broker has died: nothing that was half said counts."""
        self._by_socket.clear()

    def follow(self, event: Event) -> Iterator[Said]:
        """Yield requests and answers in an event's bytes."""
        data = event.payload
        if event.kind == "r" and data.startswith(PROTOCOL_HEADER):
            self._begin(event.handle, Conversation())
            data = data[len(PROTOCOL_HEADER) :]
        elif event.kind == "r" and data.startswith(COMMAND):
            self._begin(event.handle, Administration())
        elif event.kind == "r" and data.startswith(OFFSETS):
            self._begin(event.handle, OffsetRequest())
        number, conversation = self._by_socket.get(event.handle, (0, None))
        if conversation is None:
            return
        if event.kind == "x":
            conversation.sent_less(event.number)
            return
        for item in conversation.heard(event.kind, data):
            yield Said.of(number, event.kind == "r", item)
            if isinstance(item, Answer):  # the last of this connection: its descriptor may be something else's next
                self._by_socket.pop(event.handle, None)

    def _begin(self, socket: int, conversation: Conversation | Administration | OffsetRequest) -> None:
        self._connections += 1
        self._by_socket[socket] = self._connections, conversation
