"""pika's blocking connection: one confirm at a time, connecting again in a loop, as its documentation shows it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPConnectionError, AMQPError

from harness.clients.wire_client import Address
from tests.durability.kills.adapters.client_adapter import RETRY_SECONDS, Delivery, Publication, Verdict
from tests.durability.ledgers.client_ledger import PREFETCH

TAKE_SECONDS = 0.002


class PikaAdapter:
    """An adapter by pika."""

    lost: tuple[type[BaseException], ...] = (AMQPError, OSError)

    def __init__(self, address: Address, *, transactional: bool = False) -> None:
        self._parameters = pika.ConnectionParameters(*address, heartbeat=0)
        self._transactional = transactional
        self._connection: pika.BlockingConnection | None = None
        self._channel: BlockingChannel
        self._inbox: list[Delivery] = []

    def connect(self, given_up: Callable[[], bool]) -> None:
        self.close()
        self._inbox.clear()
        while True:
            try:
                self._connection = pika.BlockingConnection(self._parameters)
                break
            except AMQPConnectionError:
                if given_up():
                    raise
                time.sleep(RETRY_SECONDS)
        self._channel = self._connection.channel()
        self._channel.basic_qos(prefetch_count=PREFETCH)
        if self._transactional:
            self._channel.tx_select()
        else:
            self._channel.confirm_delivery()

    def publish(self, publications: Sequence[Publication], confirmed: Callable[[int], None]) -> None:
        for one in publications:
            properties = pika.BasicProperties(
                delivery_mode=2 if one.persistent else 1, priority=one.priority, headers=dict(one.headers) or None
            )
            self._channel.basic_publish(one.exchange, one.key, one.body, properties)
            if not self._transactional:
                confirmed(one.number)

    def consume(self, queue: str) -> None:
        def received(_channel: object, method: Any, properties: Any, body: bytes) -> None:
            headers = properties.headers or {}
            self._inbox.append(Delivery(queue, body, method.redelivered, headers, method.delivery_tag))

        self._channel.basic_consume(queue, received)

    def take(self) -> list[Delivery]:
        assert self._connection is not None
        self._connection.process_data_events(TAKE_SECONDS)
        taken, self._inbox[:] = self._inbox[:], []
        return taken

    def settle(self, verdicts: Sequence[tuple[Delivery, Verdict]]) -> None:
        for delivery, verdict in verdicts:
            if verdict in (Verdict.ACK, Verdict.ACK_ALL):
                self._channel.basic_ack(delivery.handle, multiple=verdict is Verdict.ACK_ALL)
            else:
                self._channel.basic_nack(delivery.handle, requeue=verdict is Verdict.REQUEUE)

    def commit(self) -> None:
        self._channel.tx_commit()

    def close(self) -> None:
        try:
            if self._connection is not None and self._connection.is_open:
                self._connection.close()
        except self.lost:
            pass  # it was gone already
