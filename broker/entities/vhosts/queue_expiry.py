"""Queue expiry: queues deleted after being unused for `x-expires`, or for a policy's `expires`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.entities.arguments.queue_arguments import QueueArguments
    from broker.entities.queues.queue import Queue
    from broker.entities.scheduling.timers import Timers


def begin(queue: Queue, timers: Timers, now: Callable[[], int], end: Callable[[Queue], object]) -> None:
    """Call `end` once the queue has been unused for its `expires`, counted from now.

    A policy change that replaces the queue's arguments stops this; call `begin` again then.
    """
    expires = queue.arguments.expires
    if expires is not None:
        queue.use()
        timers.at(now() + expires, partial(_check, queue, queue.arguments, timers, now, end), queue)


def _check(
    queue: Queue, arguments: QueueArguments, timers: Timers, now: Callable[[], int], end: Callable[[Queue], object]
) -> None:
    """Expire an unused queue, or check again later. Not a closure: that would be a reference cycle with the queue."""
    if queue.deleted or queue.arguments is not arguments or arguments.expires is None:
        return
    if len(queue.consumers):
        queue.use()
    due = queue.last_used + arguments.expires
    if due <= now():
        end(queue)
    else:
        timers.at(due, partial(_check, queue, arguments, timers, now, end), queue)
