"""A client that says what it is told and is strict about what it hears.

Callers that break the protocol on purpose make the frames themselves, and send them with `say`.
"""

from __future__ import annotations

from typing import TypeVar

from broker.wire.amqp_errors import REPLY_TEXT_BYTES_MAX
from broker.wire.frames import PROTOCOL_HEADER
from broker.wire.method import Method
from broker.wire.methods import BasicDeliver, BasicGetOk, BasicReturn, ChannelClose, ConnectionClose, ConnectionTuneOk
from harness.clients.amqp_peer import CHANNEL_MAX, Item, Login, Message
from harness.clients.session_client import SessionClient, SessionLayer

FRAME_MAX = 4096
SMALL_FRAMES = Login(tune=ConnectionTuneOk(CHANNEL_MAX, FRAME_MAX, 0))
AnyMethod = TypeVar("AnyMethod", bound=Method)


class FuzzClient(SessionClient):
    """One connection.

    `heard` has the methods that came, `tags` what was delivered, by channel; `closed_channels` wait for an answer.
    """

    def __init__(self, sessions: SessionLayer) -> None:
        super().__init__(sessions)
        self.heard: list[tuple[int, Method]] = []
        self.bodies: list[bytes] = []
        self.tags: dict[int, list[int]] = {}
        self.closed_channels: list[int] = []
        self.sent_away = False
        self._started = False

    def ask(self, method: Method, answer: type[AnyMethod], *, channel: int = 1) -> AnyMethod:  # type: ignore[override]
        """Send a method; the answer, which must be of this kind."""
        self.send(method, channel=channel)
        place, heard = self.heard.pop()
        assert (place, type(heard)) == (channel, answer), heard
        assert isinstance(heard, answer)
        return heard

    def read_on(self) -> None:
        """Take what waited while nothing was read."""
        self.reading = True
        self._flushed()
        self.sessions.core.end_turn()

    def drop(self) -> None:
        """The socket is gone."""
        self.connection.release()
        self.connection.ended = True
        self.sessions.core.end_turn()
        self._flushed()

    def _take(self, data: bytes) -> None:
        """A client that opened with something else than the protocol gets its header, and nothing further."""
        if data and not self._started:
            self._started = True
            data = data.removeprefix(PROTOCOL_HEADER)
        self.peer.frame_max = self.connection.frame_max
        for channel, item in self.peer.decode(data):
            self._hear(channel, item)

    def _hear(self, channel: int, item: Item) -> None:
        """Remember what came, and what a client has to answer, or may."""
        if isinstance(item, Message):
            method = item.method
            assert isinstance(method, BasicDeliver | BasicGetOk | BasicReturn), method
            assert item.properties is not None
            self.bodies.append(item.body)
        else:
            method = item
        self.heard.append((channel, method))
        if isinstance(method, ChannelClose | ConnectionClose):
            assert len(method.reply_text.encode("utf-8", "surrogateescape")) <= REPLY_TEXT_BYTES_MAX
        if isinstance(method, ConnectionClose):
            self.sent_away = True
        elif isinstance(method, ChannelClose):
            self.closed_channels.append(channel)
            self.tags.pop(channel, None)
        elif isinstance(method, BasicDeliver | BasicGetOk):
            self.tags.setdefault(channel, []).append(method.delivery_tag)
