"""Waiting for a future of the broker, which knows nothing of trio, in a trio task."""

from __future__ import annotations

from typing import TypeVar

import trio

from broker.entities.scheduling.future import Future

T = TypeVar("T")


async def settled(future: Future[T]) -> None:
    """Return when a future has a value or an error; other tasks run in any case."""
    event = trio.Event()
    future.then(lambda _: event.set())
    await event.wait()
