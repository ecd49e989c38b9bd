"""What a recorded broker was told and what it answered, from the bytes on its sockets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from broker.wire.frames import PROTOCOL_HEADER
from tests.crash.recorder import Event
from tests.support.client import Inbox, Message
from tests.support.frames import FrameReader

CHANNEL = 1
COMMAND = b'{"command": '
"""How a request to the administration socket begins; no frame does."""


class Request(NamedTuple):
    """What the administration socket was asked."""

    command: str
    arguments: Mapping[str, Any]


class Answer(NamedTuple):
    """What it answered."""

    ok: bool


class Said(NamedTuple):
    """One thing that was said. `connection` is a number of its own for each connection."""

    connection: int
    by_client: bool
    what: Any
    message: Message | None


class Conversation:
    """One connection's two directions. Only channel 1 is heard."""

    def __init__(self) -> None:
        self._readers = {"r": FrameReader(), "s": FrameReader()}
        self._inboxes = {"r": Inbox(), "s": Inbox()}
        self._repeated = 0

    def heard(self, kind: str, data: bytes) -> Iterator[Any]:
        """The methods, and methods with content, that are whole now in one direction."""
        if kind == "s":
            repeated = min(self._repeated, len(data))
            self._repeated -= repeated
            data = data[repeated:]
        for frame in self._readers[kind].feed(data):
            self._inboxes[kind].put(frame)
        yield from self._inboxes[kind].take_all(CHANNEL)

    def sent_less(self, size: int) -> None:
        """So many bytes of what was recorded as sent did not leave, and will be sent again."""
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


class Conversations:
    """Every connection of a recorded broker."""

    def __init__(self) -> None:
        self._by_socket: dict[int, tuple[int, Conversation | Administration]] = {}
        self._connections = 0

    def end(self) -> None:
        """The broker has died: nothing that was half said counts."""
        self._by_socket.clear()

    def follow(self, event: Event) -> Iterator[Said]:
        """What an event says."""
        data = event.payload
        if event.kind == "r" and data.startswith(PROTOCOL_HEADER):
            self._begin(event.handle, Conversation())
            data = data[len(PROTOCOL_HEADER) :]
        elif event.kind == "r" and data.startswith(COMMAND):
            self._begin(event.handle, Administration())
        number, conversation = self._by_socket.get(event.handle, (0, None))
        if conversation is None:
            return
        if event.kind == "x":
            conversation.sent_less(event.number)
            return
        for item in conversation.heard(event.kind, data):
            message = item if isinstance(item, Message) else None
            yield Said(number, event.kind == "r", message.method if message else item, message)

    def _begin(self, socket: int, conversation: Conversation | Administration) -> None:
        self._connections += 1
        self._by_socket[socket] = self._connections, conversation
