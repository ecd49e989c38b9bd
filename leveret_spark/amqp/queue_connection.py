"""A connection with a thread of its own, which is made again when it is lost.

What reads and what publishes are busy with other things for as long as a batch takes; the thread answers heartbeats
meanwhile. All of pika is called in the thread. A failure that trying again does not cure, or that lasts longer than
`reconnectSeconds`, ends it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from pika.adapters.select_connection import IOLoop
from pika.channel import Channel
from pika.exceptions import AMQPError

from leveret_spark.amqp.client_connection import explained, is_hopeless, parameters
from leveret_spark.amqp.float_headers import Connection
from leveret_spark.option_errors import AmqpError
from leveret_spark.options import Broker

RETRY_SECONDS = 0.5


class Link:
    """One connection with one channel at a time. `changed` guards what its user shows, and is notified of a failure.

    `on_channel` is called for each new channel, in the thread; when that is of use it calls `is_well`. `on_loss` is
    called when a connection has ended or did not come about.
    """

    def __init__(
        self,
        broker: Broker,
        purpose: str,
        changed: threading.Condition,
        on_channel: Callable[[Channel], None],
        on_loss: Callable[[], None],
    ) -> None:
        """`purpose` is what the broker's list of connections shows, and the thread's name."""
        self.failure: AmqpError | None = None
        self.blocked = False
        """The broker holds publishers back."""
        self.subject = str(broker)
        """Prefix of the texts of failures."""
        self._broker = broker
        self._purpose = purpose
        self._changed = changed
        self._on_channel = on_channel
        self._on_loss = on_loss
        self._over = threading.Event()
        self._connection: Connection | None = None
        self._hope_ends = time.monotonic() + broker.reconnect_seconds
        self._attempts = 0
        self._untried = len(broker.endpoints)
        """Addresses that have not been tried since the last loss."""
        self._thread = threading.Thread(target=self._run, name=f"amqp {purpose}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self, seconds: float) -> None:
        """Disconnect, and wait for the end of the thread, at most this long."""
        self._over.set()
        self.call(self.disconnect)
        if self._thread.is_alive():
            self._thread.join(seconds)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def call(self, function: Callable[[], None]) -> bool:
        """Call something in the connection's thread. False without a connection."""
        with self._changed:
            if self._connection is None:
                return False
            self._connection.ioloop.add_callback_threadsafe(function)
            return True

    # --- in the thread ---

    def is_well(self) -> None:
        """The channel is of use: the next loss is a new one."""
        self._hope_ends = 0.0
        self._untried = len(self._broker.endpoints)

    def fail(self, error: BaseException) -> None:
        """End for good, with an error for the user."""
        self._note(error)
        self.disconnect()

    def disconnect(self) -> None:
        """End this connection; unless it is over, another one is made."""
        connection = self._connection
        if connection is not None and not (connection.is_closing or connection.is_closed):
            connection.close()

    def _run(self) -> None:
        while not self._over.is_set() and self.failure is None:
            loop = IOLoop()
            try:
                self._connection = Connection(
                    parameters(self._broker, self._purpose, self._attempts),
                    on_open_callback=self._opened,
                    on_open_error_callback=self._lost,
                    on_close_callback=self._lost,
                    custom_ioloop=loop,
                )
                loop.start()
            except Exception as error:  # any error has to reach the user, who would wait otherwise
                self._note(error)
            with self._changed:
                self._connection = None
            loop.close()
            self._on_loss()
            if self.failure is None:
                self._over.wait(RETRY_SECONDS)

    def _opened(self, connection: Any) -> None:
        if self._over.is_set():
            connection.close()
            return
        connection.add_on_connection_blocked_callback(lambda *_: self._set_blocked(True))
        connection.add_on_connection_unblocked_callback(lambda *_: self._set_blocked(False))
        connection.channel(on_open_callback=self._channel_opened)

    def _channel_opened(self, channel: Channel) -> None:
        channel.add_on_close_callback(self._channel_closed)
        self._on_channel(channel)

    def _channel_closed(self, _: Channel, reason: BaseException) -> None:
        """The broker has closed the channel, or its connection is lost, which `_lost` will hear of too."""
        if is_hopeless(reason) and not self._over.is_set():
            self.fail(reason)

    def _lost(self, connection: Any, reason: BaseException | str) -> None:
        """A connection ended, or did not come about."""
        error = reason if isinstance(reason, BaseException) else AMQPError(reason)
        self._hope_ends = self._hope_ends or time.monotonic() + self._broker.reconnect_seconds
        self._attempts += 1
        self._untried -= 1
        late = time.monotonic() >= self._hope_ends and self._untried <= 0
        if not self._over.is_set() and (is_hopeless(error) or late):
            self.fail(error)
        connection.ioloop.stop()

    def _note(self, error: BaseException) -> None:
        with self._changed:
            if self.failure is None:
                self.failure = AmqpError(f"{self.subject}: {explained(error)}")
            self._changed.notify_all()

    def _set_blocked(self, blocked: bool) -> None:
        self.blocked = blocked
