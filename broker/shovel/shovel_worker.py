"""One run of a shovel: it connects to both sides, declares its queues, and moves messages until it ends."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from broker.client.client_state import ClientError, ClosedByBroker
from broker.client.link import ChannelClosed, Enter, Link, Silent, connect_any
from broker.client.move_messages import AckMode, SourceGone, Transfer
from broker.client.uris import AmqpEndpoint
from broker.shovel.definition import Shovel, ShovelName, limit
from broker.shovel.shovelled_message import Forwarding, hop
from broker.wire import methods
from broker.wire.constants import ReplyCode
from broker.wire.field_tables import from_python

log = logging.getLogger("leveret.shovel")

DECLARING = 2
"""The channel of passive declarations: a missing queue closes it."""
RECEIVE_BYTES = 1 << 14
"""Bytes that a shovel handles before others have a turn: some 100 small messages, 2 ms."""
PROTOCOL = "amqp091"
NEEDS_RESTART = '"needed a restart"'


class Surroundings(NamedTuple):
    """The broker of a shovel: a function that connects to it, and one that returns its cluster name."""

    enter: Enter
    cluster_name: Callable[[], str]


class Ended(Exception):
    """A run has ended, with RabbitMQ's text of the reason; an empty one if it could not connect."""

    def __init__(self, reason: str, cause: ClientError) -> None:
        super().__init__(str(cause))
        self.reason = reason


class Worker:
    """One run of a shovel. `on_running` is called with its particulars once it moves messages."""

    def __init__(
        self,
        name: ShovelName,
        shovel: Shovel,
        surroundings: Surroundings,
        on_running: Callable[[Worker, dict[str, str]], None],
    ) -> None:
        self._name = name
        self._shovel = shovel
        self._surroundings = surroundings
        self._on_running = on_running
        self._destination: Link | None = None
        self._transfer: Transfer | None = None

    @property
    def blocked(self) -> bool:
        """True if the destination blocks publishers."""
        return self._destination is not None and bool(self._destination.connection.blocked)

    @property
    def figures(self) -> dict[str, int | str]:
        """The numbers of messages in the status, by RabbitMQ 4's names: none waits here for a blocked destination."""
        transfer = self._transfer
        if transfer is None:
            return {}
        left, flying = transfer.remaining, transfer.in_flight
        endless = math.isinf(left)
        return {
            "pending": 0,
            "remaining": "unlimited" if endless else int(left),
            "remaining_unacked": "unlimited" if endless else int(left) - flying,
            "forwarded": transfer.settled + flying,
        }

    async def run(self) -> None:
        """Return when all messages are moved. Raises Ended."""
        source, source_at = await self._connect("source", self._shovel.source.endpoints)
        try:
            destination, destination_at = await self._connect("destination", self._shovel.destination.endpoints)
            try:
                self._destination = destination
                await self._move(source, destination, (source_at.uri, destination_at.uri))
            finally:
                await destination.close()
        finally:
            await source.close()

    async def _connect(self, side: str, endpoints: tuple[AmqpEndpoint, ...]) -> tuple[Link, AmqpEndpoint]:
        properties = {"product": "RabbitMQ shovel of Leveret", "connection_name": f"Shovel {self._name.name}"}
        try:
            return await connect_any(endpoints, properties, self._surroundings.enter, receive_bytes=RECEIVE_BYTES)
        except ClientError as error:
            log.error("shovel %s could not connect to its %s: %s", self._name, side, error)
            raise Ended("", error) from error

    async def _move(self, source: Link, destination: Link, uris: tuple[str, str]) -> None:
        shovel = self._shovel
        try:
            await self._prepare_destination(destination)
            remaining = await self._consume(source)
        except ClientError as error:
            raise self._ended(error, NEEDS_RESTART) from error
        if not remaining:
            return
        said = hop(self._name, self._surroundings.cluster_name(), shovel.source, shovel.destination, uris)
        forwarding = Forwarding(shovel.destination, said, time.time)
        self._transfer = transfer = Transfer(source, destination, forwarding, shovel.mode, remaining)
        self._on_running(self, self._particulars(uris))
        log.info("shovel %s runs from %s to %s", self._name, *uris)
        try:
            await transfer.run()
        except ClientError as error:
            raise self._ended(error, _reason(error)) from error

    def _ended(self, error: ClientError, reason: str) -> Ended:
        log.error("shovel %s has ended: %s", self._name, error)
        return Ended(reason, error)

    def _particulars(self, uris: tuple[str, str]) -> dict[str, str]:
        """Return the status fields of a running shovel; for a static one without the destination, as in RabbitMQ."""
        described = dict(self._shovel.source.described)
        if self._name.vhost is not None:
            described |= self._shovel.destination.described
        named = {key.replace("-", "_"): value for key, value in described.items()}
        sides = {"src_uri": uris[0], "src_protocol": PROTOCOL, "dest_protocol": PROTOCOL, "dest_uri": uris[1]}
        return sides | named

    async def _prepare_destination(self, link: Link) -> None:
        to = self._shovel.destination
        if to.queue is not None:
            await _ensure_queue(link, to.queue, to.queue_arguments)
        if self._shovel.mode is AckMode.ON_CONFIRM:
            await link.call(methods.ConfirmSelect(False), methods.ConfirmSelectOk)

    async def _consume(self, link: Link) -> float:
        """Begin to consume, and return the number of messages to move."""
        source, no_ack = self._shovel.source, self._shovel.mode is AckMode.NO_ACK
        queue, ready = await self._source_queue(link)
        if not no_ack:
            await link.call(methods.BasicQos(0, source.prefetch, False), methods.BasicQosOk)
        remaining = limit(source.delete_after, ready)
        if remaining:
            arguments = from_python(source.consumer_arguments)
            consume = methods.BasicConsume(queue, "", False, no_ack, False, False, arguments)
            await link.call(consume, methods.BasicConsumeOk)
        return remaining

    async def _source_queue(self, link: Link) -> tuple[str, int]:
        """Return the queue to consume from, declared if it is missing, and the number of its ready messages."""
        source = self._shovel.source
        if source.queue:
            return source.queue, await _ensure_queue(link, source.queue, source.queue_arguments)
        declare = methods.QueueDeclare("", False, False, True, False, False, {})
        queue = (await link.call(declare, methods.QueueDeclareOk)).queue
        await link.call(methods.QueueBind(queue, source.exchange, source.key, False, {}), methods.QueueBindOk)
        return queue, 0


def _reason(error: ClientError) -> str:
    match error:
        case Silent():
            return '"heartbeat timeout"'
        case SourceGone():
            return NEEDS_RESTART
        case ChannelClosed():
            return f'<<"{error.text}">>'
        case ClosedByBroker():
            return f'{{shutdown,{{server_initiated_close,{error.code},<<"{error.text}">>}}}}'
    return "socket_closed_unexpectedly"


async def _ensure_queue(link: Link, queue: str, arguments: Mapping[str, object]) -> int:
    """Declare a durable queue if it is missing, and return the number of its ready messages."""
    await link.call(methods.ChannelOpen(), methods.ChannelOpenOk, DECLARING)
    try:
        looked = methods.QueueDeclare(queue, True, False, False, False, False, {})
        found = await link.call(looked, methods.QueueDeclareOk, DECLARING)
    except ChannelClosed as error:
        if error.code != ReplyCode.NOT_FOUND:
            raise
        await link.call(methods.ChannelOpen(), methods.ChannelOpenOk, DECLARING)
        made = methods.QueueDeclare(queue, False, True, False, False, False, from_python(arguments))
        found = await link.call(made, methods.QueueDeclareOk, DECLARING)
    await link.call(methods.ChannelClose(200, "", 0, 0), methods.ChannelCloseOk, DECLARING)
    return found.message_count
