"""The scripted client as an adapter: a window of confirms, and it shows when it is blocked and what is unanswered."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from broker.wire import methods
from broker.wire.field_tables import from_python
from broker.wire.method import Method
from broker.wire.properties import BasicProperties
from harness.clients.amqp_peer import Message
from harness.clients.shorthand import consume, prefetch
from harness.clients.wire_client import Address, Client
from tests.durability.kills.adapters.client_adapter import (
    PATIENCE_SECONDS,
    RETRY_SECONDS,
    Delivery,
    Publication,
    Verdict,
)
from tests.durability.ledgers.client_ledger import PREFETCH

TAKE_SECONDS = 0.1
WINDOW = 20


class WireAdapter:
    """An adapter by the scripted client. It waits for each answer without a deadline; others judge that."""

    lost: tuple[type[BaseException], ...] = (OSError, EOFError)

    def __init__(self, address: Address, *, transactional: bool = False) -> None:
        self._address = address
        self._transactional = transactional
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        """The connection there is."""
        assert self._client is not None
        self._client.socket.settimeout(PATIENCE_SECONDS)
        return self._client

    def connect(self, given_up: Callable[[], bool]) -> None:
        self.close()
        while self._client is None:
            try:
                self._client = Client.connect(self._address, timeout=PATIENCE_SECONDS)
            except self.lost:
                if given_up():
                    raise
                time.sleep(RETRY_SECONDS)
        self.blocked = ""
        """Reason that the broker takes no publishes now; empty if it does."""
        self.unanswered: dict[int, int] = {}
        """The numbers of publishes that are neither confirmed nor refused, by their tags."""
        self._tag = 0
        self._inbox: list[Delivery] = []
        self._answers: list[Method] = []
        self.ask(prefetch(PREFETCH))
        self.ask(methods.TxSelect() if self._transactional else methods.ConfirmSelect(False))

    def publish(self, publications: Sequence[Publication], confirmed: Callable[[int], None]) -> None:
        for publication in publications:
            self.send(publication)
            while len(self.unanswered) >= WINDOW:
                self.hear(PATIENCE_SECONDS, confirmed)
        while self.unanswered:
            self.hear(PATIENCE_SECONDS, confirmed)

    def send(self, one: Publication) -> None:
        """Publish, and do not wait."""
        if not self._transactional:
            self._tag += 1
            self.unanswered[self._tag] = one.number
        properties = BasicProperties(
            delivery_mode=2 if one.persistent else 1,
            priority=one.priority,
            headers=from_python(one.headers) if one.headers else None,
        )
        self.client.publish(one.body, exchange=one.exchange, key=one.key, properties=properties)

    def hear(self, seconds: float, confirmed: Callable[[int], None] | None = None) -> bool:
        """Take in one thing that comes within `seconds`; False: nothing came."""
        try:
            item = self.client.receive(timeout=seconds)
        except TimeoutError:
            return False
        if isinstance(item, Message):
            handle = item.method.delivery_tag
            self._inbox.append(Delivery(item.method.consumer_tag, item.body, item.method.redelivered, {}, handle))
        elif isinstance(item, methods.BasicAck | methods.BasicNack):
            tags = (
                [tag for tag in self.unanswered if tag <= item.delivery_tag] if item.multiple else [item.delivery_tag]
            )
            for number in map(self.unanswered.pop, tags):
                if isinstance(item, methods.BasicAck) and confirmed is not None:
                    confirmed(number)
        elif isinstance(item, methods.ConnectionBlocked):
            self.blocked = item.reason
        elif isinstance(item, methods.ConnectionUnblocked):
            self.blocked = ""
        else:
            assert not isinstance(item, methods.ChannelClose), item
            if isinstance(item, methods.ConnectionClose):
                raise ConnectionError(str(item))
            self._answers.append(item)
        return True

    def ask(self, method: Method) -> Method:
        """Send a method and return its `-ok`, whatever comes before it."""
        self.client.send(method)
        while not self._answers:
            self.hear(PATIENCE_SECONDS)
        answer = self._answers.pop()
        assert answer.NAME.removesuffix("-ok") == method.NAME, answer
        return answer

    def consume(self, queue: str, arguments: Mapping[str, Any] | None = None) -> None:
        self.ask(consume(queue, queue, arguments=arguments))

    def take(self) -> list[Delivery]:
        if not self._inbox:
            self.hear(TAKE_SECONDS)
        taken, self._inbox[:] = self._inbox[:], []
        return taken

    def settle(self, verdicts: Sequence[tuple[Delivery, Verdict]]) -> None:
        for delivery, verdict in verdicts:
            if verdict in (Verdict.ACK, Verdict.ACK_ALL):
                self.client.send(methods.BasicAck(delivery.handle, verdict is Verdict.ACK_ALL))
            else:
                self.client.send(methods.BasicReject(delivery.handle, verdict is Verdict.REQUEUE))

    def commit(self) -> None:
        self.ask(methods.TxCommit())

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
