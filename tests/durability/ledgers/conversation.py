"""Requests to a broker and its answers, one at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from harness.clients.amqp_peer import AmqpPeer, Message

CHANNEL = 1


class Request(NamedTuple):
    """A request to the administration socket."""

    command: str
    arguments: Mapping[str, Any]


class Answer(NamedTuple):
    """Its answer."""

    ok: bool


class Said(NamedTuple):
    """One thing that was said. `connection` is a number of its own for each connection."""

    connection: int
    by_client: bool
    what: Any
    message: Message | None

    @classmethod
    def of(cls, connection: int, by_client: bool, item: Any) -> Self:
        """A method, a method with content, a request or an answer."""
        message = item if isinstance(item, Message) else None
        return cls(connection, by_client, message.method if message else item, message)


class Listener:
    """One direction of a connection. Only channel 1 is heard."""

    def __init__(self) -> None:
        self._peer = AmqpPeer()

    def hear(self, data: bytes) -> list[Any]:
        """The methods, and methods with content, that are whole now."""
        return [item for channel, item in self._peer.decode(data) if channel == CHANNEL]
