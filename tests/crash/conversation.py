"""What a recorded broker was told and what it answered, from the bytes on its sockets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from broker.wire.frames import PROTOCOL_HEADER
from tests.crash.recorder import Event
from tests.support.client import Inbox, Message
from tests.support.frames import FrameReader

CHANNEL = 1


class Conversation:
    """One connection's two directions. Only channel 1 is heard."""

    def __init__(self) -> None:
        self._readers = {"r": FrameReader(), "s": FrameReader()}
        self._inboxes = {"r": Inbox(), "s": Inbox()}

    def heard(self, kind: str, data: bytes) -> list[Any]:
        """The methods, and methods with content, that are whole now in one direction."""
        for frame in self._readers[kind].feed(data):
            self._inboxes[kind].put(frame)
        return self._inboxes[kind].take_all(CHANNEL)


class Conversations:
    """Every connection of a recorded broker, over all its restarts."""

    def __init__(self) -> None:
        self._by_socket: dict[int, Conversation] = {}

    def follow(self, event: Event) -> Iterator[tuple[bool, Any, Message | None]]:
        """What an event says: whether the client said it, the method, and the message that came with it."""
        data = event.payload
        if event.kind == "r" and data.startswith(PROTOCOL_HEADER):
            self._by_socket[event.handle] = Conversation()
            data = data[len(PROTOCOL_HEADER) :]
        conversation = self._by_socket.get(event.handle)
        if conversation is None:
            return
        assert event.kind != "x", "the client was too slow for the record to tell what it was sent"
        for item in conversation.heard(event.kind, data):
            if isinstance(item, Message):
                yield event.kind == "r", item.method, item
            else:
                yield event.kind == "r", item, None
