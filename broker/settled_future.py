"""A task waits for a future of the broker, which itself knows nothing of tasks."""

from __future__ import annotations

from typing import TypeVar

import trio

from broker.entities.scheduling.future import Future

T = TypeVar("T")


async def settled(future: Future[T]) -> None:
    """Return when a future is settled, with a value or an error; other tasks have their turn in any case."""
    event = trio.Event()
    future.then(lambda _: event.set())
    await event.wait()
