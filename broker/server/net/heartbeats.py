"""Heartbeats of all connections, in one task."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Protocol

import trio

from broker.server.engine import Engine

if TYPE_CHECKING:
    from broker.server.net.transport import Transport
    from broker.session.connection import Connection

TICK_SECONDS = 0.5


class Hearer(Protocol):
    """The broker's end of a connection.

    `last_received`: time of the last input, in seconds. `unread`: bytes in the socket now. `lay_unread`: those at the
    last look, 0 if some were read since.
    """

    last_received: float
    lay_unread: int

    @property
    def connection(self) -> Connection: ...

    @property
    def unread(self) -> int: ...


def is_silent(hearer: Hearer, interval: float, now: float, late: float) -> bool:
    """Return whether nothing has come from a client for two intervals, RabbitMQ's rule.

    The last `late` seconds, in which no socket was read, do not count, and `unread` bytes in the socket are a sign of
    life: `last_received` is moved for both. The socket of a client that does not read its output is not read, so there
    the unread bytes have to become more.
    """
    hearer.last_received += late
    if now - hearer.last_received > 2 * interval:
        before, hearer.lay_unread = hearer.lay_unread, hearer.unread
        if hearer.lay_unread > (before if hearer.connection.waits_to_be_read else 0):
            hearer.last_received = now
    return now - hearer.last_received > 2 * interval


async def beat_forever(transports: Collection[Transport], engine: Engine) -> None:
    """Send heartbeats and close silent connections, twice a second, which suffices for the shortest heartbeat, 1 s.

    Time in which the process was stopped or busy does not count as silence, because no socket was read; nor does time
    in which a test has stopped the broker's clock.
    """
    before = trio.current_time()
    while True:
        await trio.sleep(TICK_SECONDS)
        now = trio.current_time()
        passed = 0.0 if engine.broker.clock.stopped else TICK_SECONDS
        late, before = now - before - passed, now
        for transport in list(transports):
            if transport.beat_at <= now:
                transport.beat(now, late)
            else:
                transport.last_received += late
        if transports:
            engine.end_turn()
        else:
            await engine.activity.anything()
            before = trio.current_time()
