"""Mistakes in limits: how many messages a queue holds, how long they live, how long an unused queue does."""

from __future__ import annotations

from typing import Any

from broker.entities.messages.message import Entry, Message
from broker.entities.queues.ordered_queue import ClassicQueue, OrderedQueue
from broker.entities.queues.queue import Queue
from broker.entities.queues.queue_limits import Limits
from broker.entities.queues.ready_messages import ReadyMessages
from broker.entities.scheduling import clock
from broker.entities.scheduling.clock import SteadyClock
from tests.planted.mistake import Mistake, Model, Patch, Process, Simulation


def time_by_the_wall_clock(patch: Patch) -> None:
    """Ask the wall clock what time it is, whoever sets it."""

    def now(steady: SteadyClock) -> int:
        return int(clock.time.time() * 1000)

    patch(SteadyClock, "now", now)


def returned_not_counted(patch: Patch) -> None:
    """Drop nothing when what comes back exceeds the length limit."""
    patch(Limits, "make_room_for_returned", lambda limits: None)


def expired_a_moment_early(patch: Patch) -> None:
    """Drop what expires in this millisecond before a consumer gets it."""
    expire = Limits.expire
    patch(Limits, "expire", lambda limits, strictly=False: expire(limits))


def expiry_ignored_in_batches(patch: Patch) -> None:
    """Deliver a batch of messages without regard to their time to live."""

    def take(queue: OrderedQueue, limit: int) -> list[Entry]:
        taken: list[Entry] = []
        while len(taken) < limit and (entry := queue.pop()) is not None:
            taken.append(entry)
        return taken

    patch(OrderedQueue, "take", take)


def expiry_of_new_heads_ignored(patch: Patch) -> None:
    """Set no timer for the message that has come to the head."""
    patch(Limits, "watch", lambda limits: None)


def newest_dropped(patch: Patch) -> None:
    """Drop the message that comes to a full queue, and not the oldest."""
    publish = ClassicQueue.publish

    def publish_unless_full(queue: ClassicQueue, message: Message) -> bool:
        if queue.limits.on_length and queue.limits.over(1, len(message.body)):
            queue.turn_away(message, "maxlen")
            return False
        return publish(queue, message)

    patch(ClassicQueue, "publish", publish_unless_full)


def full_queue_not_shortened_at_start(patch: Patch) -> None:
    """Drop nothing of a queue that is found too long at a start."""
    patch(Limits, "resume", lambda limits: limits._queue.touch())


def limit_one_too_high(patch: Patch) -> None:
    """Hold one message more than the length limit."""
    over = Limits.over
    patch(Limits, "over", lambda limits, messages=0, size_bytes=0: over(limits, messages - 1, size_bytes))


def expiration_of_publisher_ignored(patch: Patch) -> None:
    """Go by the queue's time to live alone."""
    expires_at = Limits.expires_at

    def expires_with_queue(limits: Limits, message: Message) -> int:
        if limits.on_time:
            message.expiration = None
        return expires_at(limits, message)

    patch(Limits, "expires_at", expires_with_queue)


def bytes_not_counted_back(patch: Patch) -> None:
    """Do not count the bytes of what comes back."""
    give_back = ReadyMessages.give_back

    def give_back_uncounted(ready_messages: ReadyMessages, entries: Any) -> None:
        before = ready_messages.bytes
        give_back(ready_messages, entries)
        ready_messages.bytes = before

    patch(ReadyMessages, "give_back", give_back_uncounted)


def expiry_too_early(patch: Patch) -> None:
    """Cut a time to live by a tenth."""
    expires_at = Limits.expires_at

    def early(limits: Limits, message: Message) -> int:
        found = expires_at(limits, message)
        return found and found - (found - limits._now()) // 10

    patch(Limits, "expires_at", early)


def expiry_too_late(patch: Patch) -> None:
    """Make a time to live a second longer than asked for."""
    expires_at = Limits.expires_at

    def late(limits: Limits, message: Message) -> int:
        found = expires_at(limits, message)
        return found and found + 1000

    patch(Limits, "expires_at", late)


def queue_expiry_although_used(patch: Patch) -> None:
    """Count nobody's use of a queue."""
    patch(Queue, "use", lambda queue: None)


LENGTH = "max-length"
TIME_TO_LIVE = "message-ttl and expiration"

MISTAKES = {
    "time by the wall clock": Mistake(
        "I9", time_by_the_wall_clock, (Process("tests/unit/server/test_clock_jumps.py"), Simulation(1))
    ),
    "returned not counted": Mistake(LENGTH, returned_not_counted, (Model("limits"),)),
    "newest dropped": Mistake(LENGTH, newest_dropped, (Model("limits"),)),
    "full queue not shortened at start": Mistake(LENGTH, full_queue_not_shortened_at_start, (Model("limits"),)),
    "limit one too high": Mistake(LENGTH, limit_one_too_high, (Model("limits"),)),
    "bytes not counted back": Mistake("max-length-bytes", bytes_not_counted_back, (Model("limits"),)),
    "expired a moment early": Mistake(TIME_TO_LIVE, expired_a_moment_early, (Model("limits"),)),
    "expiry ignored in batches": Mistake(TIME_TO_LIVE, expiry_ignored_in_batches, (Model("limits"),)),
    "expiry of new heads ignored": Mistake(TIME_TO_LIVE, expiry_of_new_heads_ignored, (Model("limits"),)),
    "expiration of publisher ignored": Mistake(TIME_TO_LIVE, expiration_of_publisher_ignored, (Model("limits"),)),
    "expiry too early": Mistake(TIME_TO_LIVE, expiry_too_early, (Simulation(7),)),
    "expiry too late": Mistake(TIME_TO_LIVE, expiry_too_late, (Simulation(4),)),
    "queue expiry although used": Mistake("x-expires", queue_expiry_although_used, (Simulation(7),)),
}
