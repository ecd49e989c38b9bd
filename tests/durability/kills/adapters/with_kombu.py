"""kombu over py-amqp: one confirm at a time, reconnecting by kombu's ensure_connection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import amqp
import kombu
from kombu.exceptions import OperationalError

from harness.clients.wire_client import Address
from tests.durability.kills.adapters.client_adapter import RETRY_SECONDS, Delivery, Publication, Verdict
from tests.durability.ledgers.client_ledger import PREFETCH

TAKE_SECONDS = 0.002


class KombuAdapter:
    """An adapter by kombu."""

    lost: tuple[type[BaseException], ...] = (amqp.AMQPError, OSError, OperationalError)

    def __init__(self, address: Address, *, transactional: bool = False) -> None:
        self._transactional = transactional
        self._connection = kombu.Connection(
            f"amqp://guest:guest@{address[0]}:{address[1]}//",
            transport_options={"confirm_publish": not transactional},
        )
        self._channel: Any = None
        self._inbox: list[Delivery] = []

    def connect(self, given_up: Callable[[], bool]) -> None:
        def failed(error: Exception, _interval: float) -> None:
            if given_up():
                raise error

        self._connection.collect()
        self._inbox.clear()
        self._connection.ensure_connection(
            failed, interval_start=RETRY_SECONDS, interval_step=0, interval_max=RETRY_SECONDS
        )
        self._channel = self._connection.channel()
        self._channel.basic_qos(0, PREFETCH, False)
        if self._transactional:
            self._channel.tx_select()

    def publish(self, publications: Sequence[Publication], confirmed: Callable[[int], None]) -> None:
        for one in publications:
            message = self._channel.prepare_message(
                one.body,
                content_type="application/octet-stream",
                content_encoding="binary",
                priority=one.priority,
                headers=dict(one.headers),
                properties={"delivery_mode": 2 if one.persistent else 1},
            )
            self._channel.basic_publish(message, exchange=one.exchange, routing_key=one.key)
            if not self._transactional:
                confirmed(one.number)

    def consume(self, queue: str, arguments: Mapping[str, Any] | None = None) -> None:
        def received(message: Any) -> None:
            info, body = message.delivery_info, message.body
            body = body.encode() if isinstance(body, str) else bytes(body)
            headers = message.properties.get("application_headers") or {}
            self._inbox.append(Delivery(queue, body, info["redelivered"], headers, info["delivery_tag"]))

        self._channel.basic_consume(queue, callback=received, arguments=dict(arguments or {}))

    def take(self) -> list[Delivery]:
        try:
            self._connection.drain_events(timeout=TAKE_SECONDS)
        except TimeoutError:
            pass  # nothing has come
        taken, self._inbox[:] = self._inbox[:], []
        return taken

    def settle(self, verdicts: Sequence[tuple[Delivery, Verdict]]) -> None:
        for delivery, verdict in verdicts:
            if verdict in (Verdict.ACK, Verdict.ACK_ALL):
                self._channel.basic_ack(delivery.handle, multiple=verdict is Verdict.ACK_ALL)
            else:
                self._channel.basic_reject(delivery.handle, requeue=verdict is Verdict.REQUEUE)

    def commit(self) -> None:
        self._channel.tx_commit()

    def declare_queue(self, queue: str, arguments: Mapping[str, Any]) -> None:
        self._channel.queue_declare(queue, durable=True, auto_delete=False, arguments=dict(arguments))

    def delete_queue(self, queue: str) -> None:
        self._channel.queue_delete(queue)

    def declare_exchange(self, exchange: str) -> None:
        self._channel.exchange_declare(exchange, "topic", durable=True, auto_delete=False)

    def delete_exchange(self, exchange: str) -> None:
        self._channel.exchange_delete(exchange)

    def bind(self, queue: str, exchange: str, key: str) -> None:
        self._channel.queue_bind(queue, exchange, key)

    def unbind(self, queue: str, exchange: str, key: str) -> None:
        self._channel.queue_unbind(queue, exchange, key)

    def close(self) -> None:
        try:
            self._connection.close()
        except self.lost:
            pass  # it was gone already
