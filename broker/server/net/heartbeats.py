"""One task for the heartbeats of all connections."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

import trio

from broker.server.engine import Engine

if TYPE_CHECKING:
    from broker.server.net.transport import Transport

TICK_SECONDS = 0.5


class Hearer(Protocol):
    """The broker's end of a connection. `last_received` is when something came last, in seconds."""

    last_received: float


def is_silent(hearer: Hearer, interval: float, now: float, late: float, unread: Callable[[], bool]) -> bool:
    """Nothing has come for two intervals, which is RabbitMQ's rule.

    The last `late` seconds, in which no socket was read, do not count, and bytes that lie `unread` are a sign of life:
    `last_received` moves on for both.
    """
    hearer.last_received += late
    if now - hearer.last_received > 2 * interval and unread():
        hearer.last_received = now
    return now - hearer.last_received > 2 * interval


async def beat_forever(transports: Iterable[Transport], engine: Engine) -> None:
    """Look at every connection twice a second, which is fine enough for the shortest heartbeat there is, 1 s.

    A process that was stopped, frozen or busy for longer has read no socket meanwhile: no client was silent then.
    """
    before = trio.current_time()
    while True:
        await trio.sleep(TICK_SECONDS)
        now = trio.current_time()
        late, before = now - before - TICK_SECONDS, now
        for transport in list(transports):
            transport.beat(now, late)
        engine.end_turn()
