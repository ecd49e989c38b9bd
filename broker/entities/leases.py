"""Queues that end when nobody has used them for a while: `x-expires`, or a policy's `expires`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.entities.queue import Queue
    from broker.entities.timers import Timers


def begin(queue: Queue, timers: Timers, now: Callable[[], int], end: Callable[[Queue], object]) -> None:
    """Call `end` once the queue has been out of use for as long as its arguments say, counted from now.

    When its arguments are others, by a change of policies, this lease is over; begin the next one then.
    """
    arguments, lease = queue.arguments, queue.arguments.expires
    if lease is None:
        return

    def check() -> None:
        if queue.deleted or queue.arguments is not arguments:
            return
        if len(queue.consumers):
            queue.use()
        if queue.last_used + lease <= now():
            end(queue)
        else:
            timers.at(queue.last_used + lease, check, queue)

    queue.use()
    timers.at(now() + lease, check, queue)
