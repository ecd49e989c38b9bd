"""aio-pika's robust connection: a window of confirms, reconnecting and consuming again all by itself.

Its event loop runs only while the scenario waits for something, so it sleeps with the scenario.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import aio_pika
from aio_pika.abc import AbstractIncomingMessage, AbstractRobustChannel, AbstractRobustConnection
from aio_pika.exceptions import AMQPError
from yarl import URL

from harness.clients.wire_client import Address
from tests.durability.kills.adapters.client_adapter import (
    PATIENCE_SECONDS,
    RETRY_SECONDS,
    Delivery,
    Publication,
    Verdict,
)
from tests.durability.ledgers.client_ledger import PREFETCH

TAKE_SECONDS = 0.002
TAKE_LOOKS = 2
LOOK_SECONDS = 0.005


async def _while_not(given_up: Callable[[], bool], work: asyncio.Future[Any]) -> None:
    """Await the work, which tries again and again by itself. Raises ConnectionError once that is given up."""
    while not work.done():
        if given_up():
            work.cancel()
            raise ConnectionError("not connected")
        await asyncio.sleep(LOOK_SECONDS)
    await work


class AioPikaAdapter:
    """An adapter by aio-pika."""

    lost: tuple[type[BaseException], ...] = (AMQPError, OSError, RuntimeError)

    def __init__(self, address: Address, *, transactional: bool = False) -> None:
        options = f"heartbeat=0&fail_fast=0&reconnect_interval={RETRY_SECONDS}"
        self._url = f"amqp://guest:guest@{address[0]}:{address[1]}/?{options}"
        self._transactional = transactional
        self._loop = asyncio.new_event_loop()
        self._connection: AbstractRobustConnection | None = None
        self._channel: AbstractRobustChannel
        self._broken: asyncio.Event
        self._inbox: list[Delivery] = []
        self._consuming: set[str] = set()

    def connect(self, given_up: Callable[[], bool]) -> None:
        async def connect() -> None:
            work = self._connect_first() if self._connection is None else self._come_back(self._connection)
            await _while_not(given_up, asyncio.ensure_future(work))

        self._loop.run_until_complete(connect())

    async def _connect_first(self) -> None:
        self._broken = asyncio.Event()
        self._connection = aio_pika.RobustConnection(URL(self._url))
        await self._connection.connect()
        self._connection.close_callbacks.add(self._on_close)
        channel = await self._connection.channel(publisher_confirms=not self._transactional)
        assert isinstance(channel, AbstractRobustChannel)
        self._channel = channel
        await self._channel.set_qos(PREFETCH)
        await self._begin()

    async def _come_back(self, connection: AbstractRobustConnection) -> None:
        """Wait until the connection has another transport than the one it slept with, and its channel is restored."""
        old = connection.transport
        while connection.transport in (None, old) or not connection.connected.is_set():  # noqa: ASYNC110
            await asyncio.sleep(LOOK_SECONDS)
        await self._channel.ready()
        await self._begin()

    async def _begin(self) -> None:
        self._broken.clear()
        if self._transactional:
            await (await self._channel.get_underlay_channel()).tx_select()

    def _on_close(self, *_: object) -> None:
        """Deliveries of the old connection cannot be answered any more."""
        self._broken.set()
        self._inbox.clear()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it unless the connection is lost meanwhile; a robust connection by itself would wait for the next one."""
        self._loop.run_until_complete(asyncio.wait_for(self._unless_broken(work), PATIENCE_SECONDS))

    async def _unless_broken(self, work: Coroutine[Any, Any, None]) -> None:
        doing, breaking = asyncio.ensure_future(work), asyncio.ensure_future(self._broken.wait())
        await asyncio.wait((doing, breaking), return_when=asyncio.FIRST_COMPLETED)
        breaking.cancel()
        if not doing.done():
            doing.cancel()
            await asyncio.wait((doing,))
            raise ConnectionError("the connection is lost")
        try:
            await doing
        except Exception as error:
            if type(error) is Exception:  # aiormq's way to say that what was sent could not leave any more
                raise ConnectionError("the connection is lost") from error
            raise

    def publish(self, publications: Sequence[Publication], confirmed: Callable[[int], None]) -> None:
        async def one(publication: Publication) -> None:
            message = aio_pika.Message(
                publication.body,
                headers=dict(publication.headers),
                priority=publication.priority or 0,
                delivery_mode=2 if publication.persistent else 1,
            )
            exchange = self._channel.default_exchange
            if publication.exchange:
                exchange = await self._channel.get_exchange(publication.exchange, ensure=False)
            await exchange.publish(message, publication.key, mandatory=False)
            if not self._transactional:
                confirmed(publication.number)

        async def all_of_them() -> None:
            outcomes = await asyncio.gather(*map(one, publications), return_exceptions=True)
            for outcome in outcomes:
                if outcome is not None:
                    raise outcome

        self._run(all_of_them())

    def consume(self, queue: str) -> None:
        """A robust connection goes on consuming by itself."""
        if queue in self._consuming:
            return
        self._consuming.add(queue)

        async def received(message: AbstractIncomingMessage) -> None:
            self._inbox.append(Delivery(queue, message.body, bool(message.redelivered), dict(message.headers), message))

        async def begin() -> None:
            place = await self._channel.get_queue(queue)
            await place.consume(received)

        self._run(begin())

    def take(self) -> list[Delivery]:
        self._run(self._await_some())
        taken, self._inbox[:] = self._inbox[:], []
        return taken

    async def _await_some(self) -> None:
        for _ in range(TAKE_LOOKS):
            if self._inbox:
                break
            await asyncio.sleep(TAKE_SECONDS / TAKE_LOOKS)

    def settle(self, verdicts: Sequence[tuple[Delivery, Verdict]]) -> None:
        async def say() -> None:
            for delivery, verdict in verdicts:
                if verdict in (Verdict.ACK, Verdict.ACK_ALL):
                    await delivery.handle.ack(multiple=verdict is Verdict.ACK_ALL)
                else:
                    await delivery.handle.reject(requeue=verdict is Verdict.REQUEUE)

        self._run(say())

    def commit(self) -> None:
        async def end() -> None:
            await (await self._channel.get_underlay_channel()).tx_commit()

        self._run(end())

    def close(self) -> None:
        async def end() -> None:
            if self._connection is not None:
                await self._connection.close()

        if self._loop.is_closed():
            return
        try:
            self._loop.run_until_complete(asyncio.wait_for(end(), PATIENCE_SECONDS))
        except (*self.lost, TimeoutError):
            pass  # it was gone already
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        if left:
            self._loop.run_until_complete(asyncio.wait(left))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()
