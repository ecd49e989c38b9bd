"""Queues that end when they have been unused for a while: `x-expires`, or a policy's `expires`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.entities.arguments.queue_arguments import QueueArguments
    from broker.entities.queues.queue import Queue
    from broker.entities.scheduling.timers import Timers


def begin(queue: Queue, timers: Timers, now: Callable[[], int], end: Callable[[Queue], object]) -> None:
    """Call `end` once the queue has been out of use for as long as its arguments say, counted from now.

    When its arguments are others, by a change of policies, this time is over; begin the next one then.
    """
    expires = queue.arguments.expires
    if expires is not None:
        queue.use()
        timers.at(now() + expires, partial(_check, queue, queue.arguments, timers, now, end), queue)


def _check(
    queue: Queue, arguments: QueueArguments, timers: Timers, now: Callable[[], int], end: Callable[[Queue], object]
) -> None:
    """End a queue that has not been used, or look again; not a closure, which would hold the queue and itself."""
    if queue.deleted or queue.arguments is not arguments or arguments.expires is None:
        return
    if len(queue.consumers):
        queue.use()
    due = queue.last_used + arguments.expires
    if due <= now():
        end(queue)
    else:
        timers.at(due, partial(_check, queue, arguments, timers, now, end), queue)
