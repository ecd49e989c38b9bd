"""One task for everybody's heartbeats."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import trio

from broker.server.engine import Engine

if TYPE_CHECKING:
    from broker.server.net.transport import Transport

TICK_SECONDS = 0.5


async def beat_forever(transports: Iterable[Transport], engine: Engine) -> None:
    """Look at every connection twice a second, which is fine enough for the shortest heartbeat there is, 1 s."""
    while True:
        await trio.sleep(TICK_SECONDS)
        now = trio.current_time()
        for transport in list(transports):
            transport.beat(now)
        engine.end_turn()
