"""Mistakes in what goes from one queue to another by itself: dead letters, and delayed messages that are due."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from broker.entities.messages.death_header import DeadLetter
from broker.entities.messages.message import Entry, Message
from broker.entities.queues.at_least_once import AtLeastOnce
from broker.entities.queues.delay_queue import DelayQueue
from broker.entities.queues.ordered_queue import ClassicQueue, OrderedQueue
from broker.entities.queues.queue import Queue
from tests.planted.mistake import BrokerCrashes, Mistake, Model, Patch, Simulation

LATER_MILLISECONDS = 30
LONG_AFTER_MILLISECONDS = 400
"""More than a delayed message may be late by."""
EARLIER_MILLISECONDS = 50


def letter_after_settlement(patch: Patch) -> None:
    """Settle a dead message at once, and publish its letter a little later."""

    def discard_first(queue: OrderedQueue, entries: Sequence[Entry], reason: str) -> None:
        dead, context = [entry.message for entry in entries if entry.message is not None], queue._context
        publish = partial(context.dead_letters.publish, queue, dead, reason)
        context.timers.at(context.now() + LATER_MILLISECONDS, publish)
        queue.finish(entries)

    patch(OrderedQueue, "discard", discard_first)


def letter_lost_while_it_waits(patch: Patch) -> None:
    """Write nothing of a dead letter that nobody takes; its message is settled all the same."""

    def wait_in_memory(letters: AtLeastOnce, message: Message, reason: str) -> None:
        """Do nothing."""

    patch(AtLeastOnce, "_wait", wait_in_memory)


def letter_not_kept(patch: Patch) -> None:
    """Publish dead letters, and other messages that come by several, as transient."""
    publish_all = ClassicQueue.publish_all

    def publish_transient(queue: ClassicQueue, messages: Sequence[Message]) -> bool:
        for message in messages:
            message.flags &= queue.name != "dl"
        return publish_all(queue, messages)

    patch(ClassicQueue, "publish_all", publish_transient)


def letter_without_priority(patch: Patch) -> None:
    """Take the priority from a dead letter."""
    of = DeadLetter.of

    def of_no_priority(letter: DeadLetter, dead: Message) -> Message:
        message = of(letter, dead)
        message.priority = 0
        return message

    patch(DeadLetter, "of", of_no_priority)


def letter_expires_again(patch: Patch) -> None:
    """Let a dead letter keep the time to live of its message."""
    of = DeadLetter.of

    def of_as_long(letter: DeadLetter, dead: Message) -> Message:
        message = of(letter, dead)
        message.expiration = dead.expiration
        return message

    patch(DeadLetter, "of", of_as_long)
    patch(ClassicQueue, "publish_all", lambda queue, messages: max(map(queue.publish, messages)))


def release_after_settlement(patch: Patch) -> None:
    """Settle a delayed message that is due at once, and publish it some time later."""

    def let_go_first(queue: DelayQueue, entry: Entry) -> None:
        assert entry.message is not None
        entry.persistent = queue.durable and entry.message.persistent
        queue.finish((entry,))
        context = queue._context
        due = context.now() + LONG_AFTER_MILLISECONDS
        context.timers.at(due, partial(queue._release, entry.message, set[Queue]()))

    patch(DelayQueue, "_let_go", let_go_first)


def settlement_after_release(patch: Patch) -> None:
    """Publish a delayed message that is due, and settle it a little later."""
    finish, let_go = DelayQueue.finish, DelayQueue._let_go

    def let_go_last(queue: DelayQueue, entry: Entry) -> None:
        stored, entry.stored = entry.stored, False
        let_go(queue, entry)
        entry.stored = stored
        context = queue._context
        context.timers.at(context.now() + LATER_MILLISECONDS, partial(finish, queue, (entry,)))

    patch(DelayQueue, "_let_go", let_go_last)


def delay_too_short(patch: Patch) -> None:
    """Publish a delayed message before its time."""
    add = DelayQueue._add

    def early(queue: DelayQueue, due: int, position: int, size: int) -> None:
        add(queue, due - EARLIER_MILLISECONDS, position, size)

    patch(DelayQueue, "_add", early)


MISTAKES = {
    "letter after settlement": Mistake(
        "I12", letter_after_settlement, (BrokerCrashes("has lost|is there 2 times", (8, 8)), Simulation(2))
    ),
    "letter lost while it waits": Mistake("I12", letter_lost_while_it_waits, (BrokerCrashes("", (8, 8)),)),
    "letter not kept": Mistake("I12", letter_not_kept, (Model("queue"),)),
    "letter without priority": Mistake(
        "dead letters: keep their priority", letter_without_priority, (Model("priorities"),)
    ),
    "letter expires again": Mistake("dead letters: without their expiration", letter_expires_again, (Model("limits"),)),
    "release after settlement": Mistake(
        "I12", release_after_settlement, (BrokerCrashes("late has lost", (8, 8)), Simulation(2))
    ),
    "settlement after release": Mistake(
        "I12", settlement_after_release, (BrokerCrashes(r"is there 2 times: \['late', 'late'\]", (8, 8)),)
    ),
    "delay too short": Mistake("delayed messages: not before their time", delay_too_short, (Simulation(2),)),
}
