"""Mistakes in what goes from one queue to another by itself, and in how much of it goes in one turn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from broker.entities.arguments.queue_arguments import QueueArguments
from broker.entities.messages.death_header import DeadLetter
from broker.entities.messages.message import Message, QueuedMessage
from broker.entities.queues import queue_background_work
from broker.entities.queues.delay_queue import DelayQueue
from broker.entities.queues.due_messages import DueMessages
from broker.entities.queues.ordered_queue import ClassicQueue, OrderedQueue
from broker.entities.queues.queue import Queue
from broker.entities.queues.queue_limits import QueueLimits
from broker.entities.queues.quorum.at_least_once import AtLeastOnce
from broker.entities.scheduling.background_work import MESSAGE_BYTES
from broker.entities.vhosts import dead_lettering
from tests.planted.mistake import BrokerCrashes, Model, Patch, Simulation, mistake

LATER_MILLISECONDS = 30
LONG_AFTER_MILLISECONDS = 400
"""More than a delayed message may be late by."""
EARLIER_MILLISECONDS = 50
BOUNDED = "turns are bounded"


@mistake("I12", Simulation(8))
def dead_letter_after_settlement(patch: Patch) -> None:
    """Settle a dead message at once, and publish its dead letter a little later."""

    def discard_first(
        queue: OrderedQueue, entries: Sequence[QueuedMessage], reason: str, arguments: QueueArguments | None = None
    ) -> int:
        dead, context = [entry.message for entry in entries if entry.message is not None], queue._context
        dead_letters = context.dead_letters.write(queue, dead, reason, arguments or queue.arguments)
        context.timers.at(context.now() + LATER_MILLISECONDS, partial(context.dead_letters.publish, dead_letters))
        queue.finish(entries)
        return len(entries)

    patch(OrderedQueue, "discard", discard_first)


@mistake("I12", Simulation(3))
def settlement_in_the_batch_after_its_dead_letter(patch: Patch) -> None:
    """Close the batch between the dead letters and the end of their messages, as if it were full."""
    finish = OrderedQueue.finish

    def finish_in_the_next(queue: OrderedQueue, entries: Iterable[QueuedMessage], *, moved: bool = False) -> None:
        if moved:
            queue._context.batches.seal()
        finish(queue, entries, moved=moved)

    patch(OrderedQueue, "finish", finish_in_the_next)


@mistake(BOUNDED, Model("large messages"))
def bodies_not_counted_in_a_turn(patch: Patch) -> None:
    """Let go of, or deal with, as many large messages in one turn as small ones."""
    discard = QueueLimits._discard

    def discard_counting(limits: QueueLimits, entries: Sequence[QueuedMessage], reason: str) -> int:
        return discard(limits, entries, reason) - sum(entry.size for entry in entries)

    patch(QueueLimits, "_discard", discard_counting)
    patch(queue_background_work, "_cost", lambda entry, *, writes: MESSAGE_BYTES)


@mistake(BOUNDED, Model("many copies"))
def copies_not_counted_in_a_turn(patch: Patch) -> None:
    """Write dead letters in one step, to however many queues each of them goes."""
    patch(dead_lettering, "STEP_COPIES", 1 << 30)


@mistake("I12", BrokerCrashes("", (8, 8)))
def dead_letter_lost_while_it_waits(patch: Patch) -> None:
    """Write nothing of a dead letter that nobody takes; its message is settled all the same."""
    patch(AtLeastOnce, "_wait", lambda dead_letters, message, reason: None)


@mistake("I12", Model("queue"))
def dead_letter_not_kept(patch: Patch) -> None:
    """Publish dead letters, and other messages that come by several, as transient."""
    publish_all = ClassicQueue.publish_all

    def publish_transient(queue: ClassicQueue, messages: Sequence[Message]) -> bool:
        for message in messages:
            message.flags &= queue.name != "dl"
        return publish_all(queue, messages)

    patch(ClassicQueue, "publish_all", publish_transient)


@mistake("dead letters: keep their priority", Model("priorities"))
def dead_letter_without_priority(patch: Patch) -> None:
    """Take the priority from a dead letter."""
    of = DeadLetter.of

    def of_no_priority(dead_letter: DeadLetter, dead: Message) -> Message:
        message = of(dead_letter, dead)
        message.priority = 0
        return message

    patch(DeadLetter, "of", of_no_priority)


@mistake("dead letters: without their expiration", Model("limits"))
def dead_letter_expires_again(patch: Patch) -> None:
    """Let a dead letter keep the time to live of its message."""
    of = DeadLetter.of

    def of_as_long(dead_letter: DeadLetter, dead: Message) -> Message:
        message = of(dead_letter, dead)
        message.expiration = dead.expiration
        return message

    patch(DeadLetter, "of", of_as_long)
    patch(ClassicQueue, "publish_all", lambda queue, messages: max(map(queue.publish, messages)))


@mistake("I12", Simulation(1))
def release_after_settlement(patch: Patch) -> None:
    """Settle a delayed message that is due at once, and publish it some time later."""

    def let_go_first(queue: DelayQueue, entry: QueuedMessage) -> None:
        release = queue._release
        assert entry.message is not None
        assert release is not None
        entry.persistent = queue.durable and entry.message.persistent
        queue.finish((entry,))
        context = queue._context
        due = context.now() + LONG_AFTER_MILLISECONDS
        context.timers.at(due, partial(release, entry.message, set[Queue]()))

    patch(DelayQueue, "_let_go", let_go_first)


@mistake("I12", BrokerCrashes(r"is there 2 times: \['late', 'late'\]", (8, 8)))
def settlement_after_release(patch: Patch) -> None:
    """Publish a delayed message that is due, and settle it a little later."""
    finish, let_go = DelayQueue.finish, DelayQueue._let_go

    def let_go_last(queue: DelayQueue, entry: QueuedMessage) -> None:
        stored, entry.stored = entry.stored, False
        let_go(queue, entry)
        entry.stored = stored
        context = queue._context
        context.timers.at(context.now() + LATER_MILLISECONDS, partial(finish, queue, (entry,)))

    patch(DelayQueue, "_let_go", let_go_last)


@mistake("delayed messages: not before their time", Simulation(1))
def delay_too_short(patch: Patch) -> None:
    """Publish a delayed message before its time."""
    index = DueMessages._index_it
    patch(DueMessages, "_index_it", lambda waiting, due, *others: index(waiting, due - EARLIER_MILLISECONDS, *others))
