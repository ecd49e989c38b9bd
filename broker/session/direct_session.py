"""An AMQP channel without a socket, by which the management API acts on queues and messages in the name of a user.

Its methods go the way of every client's, so permissions, refusals and their texts are the same. A method is handled
at once or when the disk has followed; the answer is a future that is resolved at the end of a turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from broker.entities.scheduling.future import Future
from broker.session.connection import Connection, enter
from broker.session.input.incoming_frames import IncomingFrames
from broker.session.peer import Peer
from broker.session.registry import Registry
from broker.wire import methods
from broker.wire.assembler import Assembler, Command
from broker.wire.constants import FRAME_BODY, FRAME_METHOD
from broker.wire.frames import FRAME_OVERHEAD, FRAME_START, content_frames, frame, method_frame
from broker.wire.method import Method

CHANNEL = 1
FRAME_BYTES = 128 * 1024
"""Largest body frame: some 0.1 ms of work."""
BODY_BYTES_MAX = 1 << 40
"""No limit of this side's: the broker has checked the messages that it sends."""


class Refused(Exception):
    """The broker closed the channel or the connection with a reply code and a text: `NOT_FOUND - no queue ...`."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code} {text}")
        self.code = code
        self.text = text

    @property
    def explanation(self) -> str:
        """The text without the code's name."""
        return self.text.partition(" - ")[2] or self.text


class DirectSession:
    """One channel of a user in a virtual host, for one request at a time. One that is `trusted` may do anything.

    `returned`: the publish that was answered last was returned as unroutable. `on_delivery` is called at the
    end of a turn with each delivery to a consumer.
    """

    def __init__(self, registry: Registry, peer: Peer, user: str, vhost: str, *, trusted: bool = False) -> None:
        self.returned = False
        self.on_delivery: Callable[[Command], None] = _not_expected
        self._connection = connection = Connection(registry, peer, self._flush, direct=True)
        connection.user = user
        connection.frame_max, connection.channel_max = registry.settings.frame_max, 1
        self.body_part_bytes = min(connection.frame_max, FRAME_BYTES) - FRAME_OVERHEAD
        enter(connection, registry.broker.vhosts[vhost], trusted=trusted)
        self._frames = IncomingFrames(connection)
        self._assembler = Assembler(BODY_BYTES_MAX)
        self._expected: deque[Future[Command]] = deque()
        self._refused: Refused | None = None
        self.ask(methods.ChannelOpen())

    def ask(self, method: Method) -> Future[Command]:
        """Send a method and return a future of its answer, or of Refused."""
        return self._expect(method_frame(CHANNEL, method))

    def send(self, method: Method) -> None:
        """Send a method that is not answered, such as an acknowledgement."""
        self._feed(method_frame(CHANNEL, method))

    def publish(self, exchange: str, key: str, header: bytes) -> Future[Command]:
        """Publish a message, `mandatory`, on a channel in confirm mode; the future is its confirm, an ack or nack.

        Add the body with `add_body`, in parts, because a large one would take long at once.
        """
        self.returned = False
        method = method_frame(CHANNEL, methods.BasicPublish(exchange, key, True, False))
        return self._expect(method + content_frames(CHANNEL, header, b"", self._connection.frame_max))

    def add_body(self, part: bytes) -> None:
        """Send the next part of the body: `body_part_bytes`, or the rest."""
        if self._refused is None:
            self._feed(frame(FRAME_BODY, CHANNEL, part))

    def close(self) -> None:
        """End the session: unacknowledged messages are requeued."""
        self._connection.release()
        self._connection.output.end()

    def _expect(self, data: bytes) -> Future[Command]:
        answer = Future[Command]()
        if self._refused is not None:
            answer.fail(self._refused)
            return answer
        self._expected.append(answer)
        self._feed(data)
        return answer

    def _feed(self, data: bytes) -> None:
        self._frames.receive(data)
        while self._frames.unfinished and not self._connection.ended:
            self._frames.receive(b"")

    def _flush(self) -> None:
        data = self._connection.output.take()
        view = memoryview(data)  # of bodies, which are copied once they are complete
        start = 0
        while start < len(data):
            kind, _, size = FRAME_START.unpack_from(data, start)
            payload = view[start + FRAME_START.size : start + FRAME_START.size + size]
            start += size + FRAME_OVERHEAD
            command = self._assembler.body(payload) if kind == FRAME_BODY else self._begun(kind, bytes(payload))
            if command is not None:
                self._hear(command)

    def _begun(self, kind: int, payload: bytes) -> Command | None:
        if kind == FRAME_METHOD:
            return self._assembler.method(methods.DECODERS[int.from_bytes(payload[:4])](payload), payload[4:])
        return self._assembler.header(payload)

    def _hear(self, command: Command) -> None:
        method = command.method
        if isinstance(method, methods.BasicReturn):
            self.returned = True
        elif isinstance(method, methods.BasicDeliver):
            self.on_delivery(command)
        elif isinstance(method, methods.ChannelClose | methods.ConnectionClose):
            self._refused = Refused(method.reply_code, method.reply_text)
            while self._expected:
                self._expected.popleft().fail(self._refused)
        elif self._expected:
            self._expected.popleft().resolve(command)


def _not_expected(command: Command) -> None:
    raise AssertionError(f"a delivery without a consumer: {command.method}")
