"""Test requests about the broker's clock: stop, start, step, set. All work that becomes due is done in order."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from math import ceil, inf
from typing import TYPE_CHECKING, Any

import trio

from broker.admin.protocol import AdministrationError, invalid
from broker.entities.node.broker import Broker
from broker.session.login.phase import Phase
from broker.testing.controlled_clock import ControlledClock
from broker.testing.quiescence import Quiescence
from broker.testing.request_arguments import RequestArguments

if TYPE_CHECKING:
    from broker.server.net.transport import Transport

STEP_SECONDS_MAX = 400 * 86_400
"""Periodic work is done each time that it is due: a longer step would take seconds."""
TIME_MAX = 253_402_300_799_000
"""The end of the year 9999, in milliseconds since the epoch."""


class TimeControl:
    """Stops, starts, steps and sets the clock, one request at a time.

    `transports` are the connections of clients, for heartbeats; `wake` ends the engine's sleep, which was computed
    before the clock changed.
    """

    def __init__(
        self,
        clock: ControlledClock,
        broker: Broker,
        quiescence: Quiescence,
        transports: Iterable[Transport],
        wake: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._broker = broker
        self._quiescence = quiescence
        self._transports = transports
        self._wake = wake
        self._moving = trio.Lock()

    def show(self) -> dict[str, Any]:
        """Return the time, whether it is stopped, and how far it is ahead of the machine's."""
        now = self._clock.now()
        return {
            "now": datetime.fromtimestamp(now / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "milliseconds": now,
            "stopped": self._clock.stopped,
            "ahead_seconds": round(self._clock.ahead / 1000, 3),
        }

    async def stop(self) -> None:
        """Stop the clock, and do all work that is due by then."""
        async with self._moving:
            self._clock.stop()
            await self._quiescence.settle()

    async def start(self) -> None:
        """Start the clock again from the time that it shows."""
        async with self._moving:
            self._clock.go_on()
            self._wake()

    async def step(self, seconds: float, *, heartbeats: bool) -> None:
        """Advance the clock by `seconds`. With `heartbeats` they count as silence of clients."""
        async with self._moving:
            await self._move(self._clock.now() + round(seconds * 1000), heartbeats=heartbeats)

    async def set(self, to: int, *, heartbeats: bool) -> None:
        """Set the clock, in milliseconds since the epoch. Raises AdministrationError `refused` for an earlier time
        while the clock runs."""
        async with self._moving:
            now = self._clock.now()
            if to > now + STEP_SECONDS_MAX * 1000:
                raise invalid(f"argument to: is more than {STEP_SECONDS_MAX // 86_400} days from the broker's time")
            if to < now and not self._clock.stopped:
                text = "a running clock cannot be set back: stop it first (clock/stop), then set it"
                raise AdministrationError("refused", text)
            if to < now:
                self._clock.move(to)
                self._broker.timers.set_back(now - to)
            await self._move(to, heartbeats=heartbeats)

    @asynccontextmanager
    async def starting_anew(self) -> AsyncIterator[None]:
        """Stop the clock while the body runs, so that work that pauses for others goes on at once; then show the
        machine's time. Work that is due by that time is done soon.
        """
        async with self._moving:
            self._clock.stop()
            try:
                yield
            finally:
                ahead = self._clock.ahead
                self._clock.reset()
                self._broker.timers.set_back(max(0, ahead))
                self._wake()

    async def _move(self, to: int, *, heartbeats: bool) -> None:
        stood_still = self._clock.stopped
        self._clock.stop()
        try:
            await self._quiescence.settle()
            while (moment := self._next(heartbeats=heartbeats)) <= to:
                await self._pass(int(moment), heartbeats=heartbeats)
            await self._pass(to, heartbeats=heartbeats)
            await self._quiescence.stored()
            await self._quiescence.settle()
        finally:
            if not stood_still:
                self._clock.go_on()
            self._wake()

    def _next(self, *, heartbeats: bool) -> float:
        """Return the next time at which work is due."""
        due = self._broker.timers.next_due()
        silences = [self._silent_at(transport) for transport in self._transports] if heartbeats else []
        return max(self._clock.now(), min([inf if due is None else due, *silences]))

    def _silent_at(self, transport: Transport) -> float:
        """Return the time at which a client that stays silent is disconnected."""
        connection = transport.connection
        if not connection.heartbeat or connection.ended or connection.phase is not Phase.OPEN:
            return inf
        left = transport.last_received + 2 * connection.heartbeat - trio.current_time()
        return self._clock.now() + max(1, ceil(left * 1000) + 1)

    async def _pass(self, moment: int, *, heartbeats: bool) -> None:
        """Advance the clock to a later time, and do all work that is due then."""
        seconds = (moment - self._clock.now()) / 1000
        self._clock.move(moment)
        if heartbeats and seconds:
            self._beat(seconds)
        await self._quiescence.settle()

    def _beat(self, seconds: float) -> None:
        """Count `seconds` as silence of clients, and disconnect those that are silent for too long."""
        now = trio.current_time()
        for transport in list(self._transports):
            transport.beat(now, -seconds)
            if transport.connection.ended:
                transport.connection.release()  # now, not when its task runs, so that the step includes it


def time_of(arguments: RequestArguments, name: str) -> int:
    """Return a time argument, milliseconds since the epoch or RFC 3339 text. Raises AdministrationError `invalid`."""
    value = arguments.value(name)
    if not isinstance(value, str):
        return round(arguments.number(name, TIME_MAX))
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        expected = "expected a time such as 2027-01-31T12:00:00Z, or milliseconds since 1970"
        raise invalid(f"argument {name}: {expected}") from None
    return max(0, round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000))
