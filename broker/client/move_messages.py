"""Moves messages from a queue to another broker, in order; a confirm of the destination acknowledges at the source.

Deliveries are published as they arrive. Only delivery tags are kept, by publish number, so a `multiple` confirm is one
`multiple` acknowledgement. A message that was not confirmed is still the source's, and is delivered again.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from enum import StrEnum
from itertools import takewhile

import trio

from broker.client.client_state import ClientError
from broker.client.link import Link
from broker.wire import methods
from broker.wire.assembler import Command
from broker.wire.method import Method

Forward = Callable[[Command], tuple[bytes, bytes]]
"""Returns the frame of basic.publish and the payload of the header frame for a delivery."""


class AckMode(StrEnum):
    """The moment at which a message counts as moved and is acknowledged at the source."""

    ON_CONFIRM = "on-confirm"
    ON_PUBLISH = "on-publish"
    NO_ACK = "no-ack"


class SourceGone(ClientError):
    """The queue has been deleted, or its consumer cancelled."""


class NotArrived(ClientError):
    """A message that must arrive was returned or nacked."""


class Transfer:
    """Moves a consumer's deliveries until `remaining` of them are settled.

    The source's channel consumes already, the destination's is in confirm mode if `mode` needs it. `settled` is the
    number moved so far. A nacked message is requeued, or ends the transfer with `must_arrive`.
    """

    def __init__(
        self,
        source: Link,
        destination: Link,
        forward: Forward,
        mode: AckMode,
        remaining: float = math.inf,
        *,
        must_arrive: bool = False,
    ) -> None:
        self._source = source
        self._destination = destination
        self._forward = forward
        self._mode = mode
        self._remaining = remaining
        self._unsettled: dict[int, int] = {}
        """Delivery tags by publish number, in order."""
        self._must_arrive = must_arrive
        self._done = trio.Event()
        self._error: ClientError | None = None
        self.settled = 0

    async def run(self) -> None:
        """Return when all messages are moved. Raises ClientError."""
        work = (self._source.keep_alive, self._destination.keep_alive, self._publish_forever, self._settle_forever)
        async with trio.open_nursery() as nursery:
            for each in work:
                nursery.start_soon(self._until_error, each)
            await self._done.wait()
            nursery.cancel_scope.cancel()
        if self._error is not None:
            raise self._error

    @property
    def remaining(self) -> float:
        """Number of messages to be moved yet; infinite for a transfer without an end."""
        return self._remaining

    @property
    def in_flight(self) -> int:
        """Number of messages published and not settled."""
        return len(self._unsettled)

    def finish(self) -> None:
        """End the transfer without an error."""
        self._done.set()

    def fail(self, error: ClientError) -> None:
        """End the transfer with an error, which `run` raises."""
        self._error = self._error or error
        self._done.set()

    async def _until_error(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except ClientError as error:
            self.fail(error)

    async def _publish_forever(self) -> None:
        while True:
            for arrival in await self._source.receive():
                method = arrival.command.method
                if isinstance(method, methods.BasicCancel):
                    raise SourceGone("the queue is deleted")
                if isinstance(method, methods.BasicDeliver) and len(self._unsettled) < self._remaining:
                    self._publish(arrival.command, method.delivery_tag)
            await self._destination.flush()
            if self._mode is not AckMode.ON_CONFIRM and self._unsettled:
                self._settle(next(reversed(self._unsettled)), True, methods.BasicAck)
                await self._tell_source()

    def _publish(self, command: Command, tag: int) -> None:
        publish, header = self._forward(command)
        self._unsettled[self._destination.publish(publish, header, command.body)] = tag

    async def _settle_forever(self) -> None:
        while True:
            for arrival in await self._destination.receive():
                self._hear(arrival.command.method)
            await self._tell_source()

    async def _tell_source(self) -> None:
        await self._source.flush()
        if self._remaining <= 0:
            self._done.set()

    def _hear(self, method: object) -> None:
        match method:
            case methods.BasicAck():
                self._settle(method.delivery_tag, method.multiple, methods.BasicAck)
            case methods.BasicNack() if self._must_arrive:
                raise NotArrived("the queue does not take the message: it is full")
            case methods.BasicNack():
                self._settle(method.delivery_tag, method.multiple, _requeued)
            case methods.BasicReturn():
                raise NotArrived(f"no queue takes the message: {method.reply_code} {method.reply_text}")

    def _settle(self, number: int, multiple: bool, settlement: Callable[[int, bool], Method]) -> None:
        """Settle the delivery of a publish, or of all publishes up to it, at the source."""
        numbers = [number] if number in self._unsettled else []
        if multiple:
            numbers = list(takewhile(lambda each: each <= number, self._unsettled))
        if not numbers:
            return
        if self._mode is not AckMode.NO_ACK:
            self._source.send(settlement(self._unsettled[numbers[-1]], multiple))
        for each in numbers:
            del self._unsettled[each]
        self.settled += len(numbers)
        self._remaining -= len(numbers)


def _requeued(tag: int, multiple: bool) -> Method:
    return methods.BasicNack(tag, multiple, True)
