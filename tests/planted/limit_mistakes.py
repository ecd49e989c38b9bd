"""Mistakes in limits: how many messages a queue holds, how long they live, how long an unused queue does."""

from __future__ import annotations

import time
from typing import Any

from broker.entities.arguments import name_patterns
from broker.entities.messages.message import Message, QueuedMessage
from broker.entities.queues.ordered_queue import ClassicQueue, OrderedQueue
from broker.entities.queues.queue import Queue
from broker.entities.queues.queue_limits import QueueLimits
from broker.entities.queues.ready_messages import ReadyMessages
from broker.entities.scheduling.clock import SteadyClock
from tests.planted.mistake import Model, Patch, Process, Simulation, mistake

LENGTH = "max-length"
TIME_TO_LIVE = "message-ttl and expiration"


@mistake("I9", Process("tests/unit/server/test_clock_jumps.py"), Simulation(19))
def time_by_the_wall_clock(patch: Patch) -> None:
    """Ask the wall clock what time it is, whoever sets it."""
    patch(SteadyClock, "now", lambda steady: int(time.time() * 1000))


@mistake("regular expressions are given up", Process("tests/security/hostile/test_hostile_patterns.py"))
def patterns_without_a_limit(patch: Patch) -> None:
    """Search a name with a pattern for a million steps at each place in it."""
    search = name_patterns.NamePattern.search

    def search_on(pattern: name_patterns.NamePattern, name: str, steps_max: int = 0) -> bool:
        return search(pattern, name, 1_000_000 * (len(name) + 1))

    patch(name_patterns.NamePattern, "search", search_on)


@mistake(LENGTH, Model("limits"))
def returned_not_counted(patch: Patch) -> None:
    """Drop nothing when what comes back exceeds the length limit."""
    patch(QueueLimits, "drop_excess_of_returned", lambda limits: None)


@mistake(TIME_TO_LIVE, Model("limits"))
def expired_a_moment_early(patch: Patch) -> None:
    """Drop what expires in this millisecond before a consumer gets it."""
    expire = QueueLimits.expire
    patch(QueueLimits, "expire", lambda limits, strictly=False: expire(limits))


@mistake(TIME_TO_LIVE, Model("limits"))
def expiry_ignored_in_batches(patch: Patch) -> None:
    """Deliver a batch of messages without regard to their time to live."""

    def take(queue: OrderedQueue, limit: int) -> list[QueuedMessage]:
        taken: list[QueuedMessage] = []
        while len(taken) < limit and (entry := queue.pop()) is not None:
            taken.append(entry)
        return taken

    patch(OrderedQueue, "take", take)


@mistake(TIME_TO_LIVE, Model("limits"))
def expiry_of_new_heads_ignored(patch: Patch) -> None:
    """Set no timer for the message that has come to the head."""
    patch(QueueLimits, "watch", lambda limits: None)


@mistake(TIME_TO_LIVE, Model("limits"))
def returned_counts_as_new(patch: Patch) -> None:
    """Deliver what comes back with no time left as what has just come."""

    def is_due(limits: QueueLimits, entry: QueuedMessage) -> bool:
        return 0 < entry.expires_at <= (limits.moment() - 1 if limits._strictly else limits._now())

    patch(QueueLimits, "_is_due", is_due)


@mistake(LENGTH, Model("limits"))
def newest_dropped(patch: Patch) -> None:
    """Drop the message that comes to a full queue, and not the oldest."""
    publish = ClassicQueue.publish

    def publish_unless_full(queue: ClassicQueue, message: Message) -> bool:
        if queue.limits.on_length and queue.limits.over(1, len(message.body)):
            queue.turn_away(message, "maxlen")
            return False
        return publish(queue, message)

    patch(ClassicQueue, "publish", publish_unless_full)


@mistake(LENGTH, Model("limits"))
def full_queue_not_shortened_at_start(patch: Patch) -> None:
    """Drop nothing of a queue that is found too long at a start."""
    patch(QueueLimits, "resume", lambda limits: limits._queue.touch())


@mistake(LENGTH, Model("limits"))
def limit_one_too_high(patch: Patch) -> None:
    """Hold one message more than the length limit."""
    over = QueueLimits.over
    patch(QueueLimits, "over", lambda limits, messages=0, size_bytes=0: over(limits, messages - 1, size_bytes))


@mistake(TIME_TO_LIVE, Model("limits"))
def expiration_of_publisher_ignored(patch: Patch) -> None:
    """Go by the queue's time to live alone."""
    expires_at = QueueLimits.expires_at

    def expires_with_queue(limits: QueueLimits, message: Message, *now: int) -> int:
        if limits.on_time:
            message.expiration = None
        return expires_at(limits, message, *now)

    patch(QueueLimits, "expires_at", expires_with_queue)


@mistake("max-length-bytes", Model("limits"))
def bytes_not_counted_back(patch: Patch) -> None:
    """Do not count the bytes of what comes back."""
    give_back = ReadyMessages.give_back

    def give_back_uncounted(ready_messages: ReadyMessages, entries: Any) -> None:
        before = ready_messages.bytes
        give_back(ready_messages, entries)
        ready_messages.bytes = before

    patch(ReadyMessages, "give_back", give_back_uncounted)


@mistake(TIME_TO_LIVE, Simulation(2))
def expiry_too_early(patch: Patch) -> None:
    """Cut a time to live by a tenth."""
    expires_at = QueueLimits.expires_at

    def early(limits: QueueLimits, message: Message, *now: int) -> int:
        found = expires_at(limits, message, *now)
        return found and found - (found - limits._now()) // 10

    patch(QueueLimits, "expires_at", early)


@mistake(TIME_TO_LIVE, Simulation(11))
def expiry_too_late(patch: Patch) -> None:
    """Make a time to live a second longer than asked for."""
    expires_at = QueueLimits.expires_at

    def late(limits: QueueLimits, message: Message, *now: int) -> int:
        found = expires_at(limits, message, *now)
        return found and found + 1000

    patch(QueueLimits, "expires_at", late)


@mistake("x-expires", Simulation(2))
def queue_expiry_although_used(patch: Patch) -> None:
    """Count nobody's use of a queue."""
    patch(Queue, "use", lambda queue: None)
