"""A client of one broker: it declares a queue, publishes numbers with confirms, and takes what is there in the end."""

from __future__ import annotations

from itertools import count
from random import Random
from typing import final

from broker.wire.frames import method_frame
from broker.wire.methods import BasicAck, BasicGetEmpty, ConfirmSelect, QueueDeclareOk
from harness.clients.amqp_peer import AmqpPeer, Login, Message, method_frames, publish_frames
from harness.clients.shorthand import get, queue_declare
from tests.simulation.world.process import Process
from tests.simulation.world.virtual_time import Agenda
from tests.simulation.world.wire import SimulatedSocket

QUEUE = "q"
PAUSE, AT_ONCE = 700, 4
"""Longest time between two publishes, in milliseconds, and the most messages of one."""


@final
class Publisher:
    """The client; `numbers` gives it numbers that nobody else publishes. It ends with its broker."""

    def __init__(self, process: Process, agenda: Agenda, chance: Random, numbers: count[int]) -> None:
        self.confirmed: list[int] = []
        self.found: list[int] | None = None
        """All that was in the queue, once it has been taken."""
        self._process = process
        self._agenda = agenda
        self._chance = chance
        self._numbers = numbers
        self._unconfirmed: dict[int, int] = {}
        self._tags = count(1)
        self._taken: list[int] | None = None
        self._declared = False
        self._peer = AmqpPeer()
        self._socket = SimulatedSocket(process, self._receive, lambda: None)
        self._peer.begin(Login(), [1])
        self._socket.send(self._peer.take_output())

    def take_all(self) -> None:
        """Publish no more, and take all messages out of the queue."""
        self._taken = []
        self._send(method_frame(1, get(QUEUE, no_ack=True)))

    def _send(self, data: bytes) -> None:
        if self._process.alive and not self._socket.closed:
            self._socket.send(data)

    def _receive(self, data: bytes) -> None:
        handshaking = self._peer.handshaking
        self._peer.receive(data)
        output = self._peer.take_output()
        if output:
            self._later(0, lambda: self._send(output))
        elif handshaking and not self._peer.handshaking:
            self._later(
                0, lambda: self._send(method_frames(1, ConfirmSelect(False), queue_declare(QUEUE, durable=True)))
            )
        for item in self._peer.take_all(1):
            self._handle(item)

    def _later(self, milliseconds: int, action: object) -> None:
        self._agenda.after(milliseconds, action)  # type: ignore[arg-type]

    def _handle(self, item: object) -> None:
        if isinstance(item, QueueDeclareOk):
            self._publish()
        elif isinstance(item, BasicAck):
            tags = [
                tag
                for tag in self._unconfirmed
                if tag == item.delivery_tag or (item.multiple and tag < item.delivery_tag)
            ]
            self.confirmed += [self._unconfirmed.pop(tag) for tag in tags]
        elif isinstance(item, Message) and self._taken is not None:
            self._taken.append(int(item.body))
            self._later(0, lambda: self._send(method_frame(1, get(QUEUE, no_ack=True))))
        elif isinstance(item, BasicGetEmpty):
            self.found = self._taken

    def _publish(self) -> None:
        if self._taken is not None or not self._process.alive:
            return
        for _ in range(self._chance.randint(1, AT_ONCE)):
            number = self._unconfirmed[next(self._tags)] = next(self._numbers)
            self._send(publish_frames(b"%d" % number, key=QUEUE, persistent=True))
        self._later(self._chance.randint(1, PAUSE), self._publish)
