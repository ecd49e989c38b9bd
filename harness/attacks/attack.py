"""Controls of every attack: begin, go on, end.

An attack goes on until it is stopped. When the broker has had enough of a connection, the attacker comes back.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from broker.wire.methods import ChannelFlow, ChannelFlowOk
from harness.attacks.raw_connection import Address, RawConnection

PAUSE_SECONDS = 0.001
"""Between two rounds, so that an attacker who waits for nothing does not take the tests' own processor."""


class Attack:
    """One kind of bad client. `connections` are its connections; `size` scales what it takes (1.0: the worst)."""

    def __init__(self, address: Address, size: float = 1.0) -> None:
        self.address = address
        self.size = size
        self.connections: list[RawConnection] = []
        self.rounds = 0

    def begin(self) -> None:
        """Connect, and prepare the worst."""

    def round(self) -> None:
        """Do it once more; takes no longer than some tenths of a second."""

    def end(self) -> None:
        """Drop every connection without a word."""
        for connection in self.connections:
            connection.close()
        self.connections.clear()

    def attempt(self) -> None:
        """One round; a client that was closed comes back, and prepares again."""
        try:
            if not self.connections:
                self.begin()
            self.round()
        except OSError:
            self.end()
        self.rounds += 1

    def scaled(self, worst: int) -> int:
        """Return `worst` of something, at this size."""
        return max(2, int(worst * self.size))

    def open(self, *, channels: int = 1, heartbeat: int = 0, greet: bool = True, window: int = 0) -> RawConnection:
        """One more connection."""
        connection = RawConnection(self.address, channels=channels, heartbeat=heartbeat, greet=greet, window=window)
        self.connections.append(connection)
        return connection

    @property
    def connection(self) -> RawConnection:
        """The first connection."""
        return self.connections[0]


@contextmanager
def underway(attack: Attack) -> Iterator[Attack]:
    """The attack goes on in a thread for as long as the context lasts; a mistake of its own is raised at the end."""
    stopped, errors = threading.Event(), list[BaseException]()

    def go_on() -> None:
        try:
            while not stopped.is_set():
                attack.attempt()
                time.sleep(PAUSE_SECONDS)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=go_on, daemon=True)
    thread.start()
    try:
        yield attack
    finally:
        stopped.set()
        thread.join()
        attack.end()
    if errors:
        raise errors[0]


class Work(Attack):
    """Requests that cost the broker much, in chunks; the next one comes when the one before is done with.

    Otherwise megabytes of it would lie in the sockets' buffers, to be worked off after the attacker has gone.
    """

    def begin(self) -> None:
        self.data = self.prepare(self.open())

    def prepare(self, connection: RawConnection) -> bytes:
        """Set the scene; the bytes of one round, where it is always the same."""
        raise NotImplementedError

    def chunk(self) -> bytes:
        """The bytes of one round."""
        return self.data

    def round(self) -> None:
        self.connection.tell(self.chunk())
        self.connection.ask(ChannelFlowOk, ChannelFlow(True))


class Flood(Attack):
    """The same bytes again and again; `never_reads` never reads what comes back."""

    never_reads = False
    channels = 1

    def __init__(self, address: Address, size: float = 1.0) -> None:
        super().__init__(address, size)
        self.data = b""

    def begin(self) -> None:
        connection = self.open(channels=self.channels, window=4096 if self.never_reads else 0)
        self.data = self.prepare(connection)

    def prepare(self, connection: RawConnection) -> bytes:
        """Set the scene; the bytes of one round."""
        raise NotImplementedError

    def round(self) -> None:
        self.connection.press(self.data)
        if not self.never_reads:
            self.connection.hear()
