"""Stands for the machine in a world: the broker's clocks, a disk with a size, and small limits for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from broker.entities.queues.ready_messages import MemoryWindow
from broker.entities.queues.streams import stream_queue
from broker.entities.scheduling.clock import SteadyClock
from broker.server import recovery, resource_alarms
from broker.session.methods import publish
from storage.space import ballast, store_space
from tests.simulation.world.disk import BALLAST_BYTES, LARGE_BYTES, PAGE_BYTES

if TYPE_CHECKING:
    from tests.simulation.world.disk import Disk
    from tests.simulation.world.virtual_time import Times

READ_BYTES = 4096
"""Bytes that each consumer of a stream reads ahead, with one message more."""


@contextmanager
def governing(times: Times, disk: Disk) -> Iterator[None]:
    """Have the broker's own clocks, the real ones, read these times, and its look at the disk see this one."""
    found: list[tuple[Any, str, Any]] = [
        (recovery, "SteadyClock", partial(SteadyClock, times.time, times.monotonic)),
        (resource_alarms, "time", times),
        (resource_alarms, "REUSABLE_BYTES_MIN", 8 * PAGE_BYTES),
        (resource_alarms, "REUSABLE_BYTES_KEPT", 64 * PAGE_BYTES),
        (store_space, "shutil", disk),
        (ballast, "BALLAST_BYTES", BALLAST_BYTES),
        (publish, "LARGE_BYTES", LARGE_BYTES),
        (stream_queue, "READ", MemoryWindow(6, READ_BYTES)),
    ]
    with standing_in(found):
        yield


@contextmanager
def standing_in(stand_ins: list[tuple[Any, str, Any]]) -> Iterator[None]:
    """Give attributes other values until the end of the block. Each has its owner, its name and the value."""
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in stand_ins]
    for owner, name, value in stand_ins:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)
