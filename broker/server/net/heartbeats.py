"""One task for the heartbeats of all connections."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Protocol

import trio

from broker.server.engine import Engine

if TYPE_CHECKING:
    from broker.server.net.transport import Transport
    from broker.session.connection import Connection

TICK_SECONDS = 0.5


class Hearer(Protocol):
    """The broker's end of a connection.

    `last_received` is when something came last, in seconds, `lay_unread` how many bytes waited to be read at the last
    look, 0 where some have been read since.
    """

    last_received: float
    lay_unread: int

    @property
    def connection(self) -> Connection: ...


def is_silent(hearer: Hearer, interval: float, now: float, late: float, unread: Callable[[], int]) -> bool:
    """Nothing has come for two intervals, which is RabbitMQ's rule.

    The last `late` seconds, in which no socket was read, do not count, and bytes that lie `unread` are a sign of life:
    `last_received` moves on for both. A client that does not read is not read from: it has to send more than lay there.
    """
    hearer.last_received += late
    if now - hearer.last_received > 2 * interval:
        before, hearer.lay_unread = hearer.lay_unread, unread()
        if hearer.lay_unread > (before if hearer.connection.waits_to_be_read else 0):
            hearer.last_received = now
    return now - hearer.last_received > 2 * interval


async def beat_forever(transports: Collection[Transport], engine: Engine) -> None:
    """Look at the connections for which something may be due, twice a second: fine enough for the shortest heartbeat
    there is, 1 s.

    A process that was stopped, frozen or busy for longer has read no socket meanwhile: no client was silent then.
    Nor was one while the broker's clock stood still.
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
