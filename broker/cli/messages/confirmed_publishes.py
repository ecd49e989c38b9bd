"""Publishes with confirms: how many may be on their way, and what became of each."""

from __future__ import annotations

import time
from collections.abc import Iterator

from broker.admin.protocol import AdministrationError
from broker.cli.messages.amqp_client import ANSWER_SECONDS, AmqpClient
from broker.wire import methods
from broker.wire.assembler import Command

WINDOW = 1000


class Publisher:
    """Publishes on a channel in confirm mode, with at most `window` messages that are not confirmed yet."""

    def __init__(self, client: AmqpClient, window: int = WINDOW) -> None:
        client.call(methods.ConfirmSelect(False), methods.ConfirmSelectOk)
        self._client = client
        self._window = window
        self._sent: dict[int, float] = {}
        """Times at which unconfirmed messages were sent, by publish number, in seconds of the monotonic clock."""
        self._tag = 0

    @property
    def room(self) -> int:
        """Number of messages that may be sent now."""
        return self._window - len(self._sent)

    def publish(self, message: bytes, count: int = 1) -> None:
        """Send a message made by `AmqpClient.encode` `times` times, after waiting for room."""
        while self.room < count:
            list(self.confirms(ANSWER_SECONDS))
        now = time.monotonic()
        self._client.send_bytes(message * count)
        self._sent |= dict.fromkeys(range(self._tag + 1, self._tag + count + 1), now)
        self._tag += count

    def finish(self) -> None:
        """Wait until all is confirmed. Raises AdministrationError for what was returned or not taken."""
        while self._sent:
            list(self.confirms(ANSWER_SECONDS))

    def confirms(self, seconds: float) -> Iterator[float]:
        """Return the latencies of the messages confirmed next, in seconds. Waits up to `seconds` for a confirm."""
        command = self._client.next(seconds)
        if command is None:
            raise AdministrationError("failed", f"no confirm has come in {seconds:g} seconds")
        now = time.monotonic()
        for tag in self._settled(command):
            yield now - self._sent.pop(tag)

    def _settled(self, command: Command) -> list[int]:
        method = command.method
        if isinstance(method, methods.BasicReturn):
            place = f"exchange '{method.exchange}'" if method.exchange else "the default exchange"
            text = f"no queue takes the key '{method.routing_key}' of {place}: {method.reply_text}"
            raise AdministrationError("not_found", text)
        if isinstance(method, methods.BasicNack):
            raise AdministrationError("refused", "the queue did not take the message: it is full")
        if not isinstance(method, methods.BasicAck):
            return []
        if not method.multiple:
            return [method.delivery_tag]
        return [tag for tag in self._sent if tag <= method.delivery_tag]
