"""Mistakes in what is delivered to whom, and in what says that it was."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from broker.entities.messages.message import Entry
from broker.entities.queues.consumers import Consumer, Consumers
from broker.entities.queues.ordered_queue import OrderedQueue
from broker.entities.queues.priority_queue import PriorityStore
from broker.entities.queues.queue_store import QueueStore
from broker.session.consumer_timeout import Overdue
from tests.planted.mistake import Mistake, Model, Patch, Simulation


def delivered_mark_forgotten(patch: Patch) -> None:
    """Write nothing of deliveries: after a crash nobody knows of them."""
    patch(QueueStore, "delivered", lambda store, entries: None)


def delivered_mark_for_all_priorities(patch: Patch) -> None:
    """Mark every priority up to a delivery's position: what is below it need not have been delivered."""

    def delivered(store: PriorityStore, entries: Iterable[Entry]) -> None:
        for lane in store._lanes.values():
            lane.delivered(entries)

    patch(PriorityStore, "delivered", delivered)


def redelivered_forgotten(patch: Patch) -> None:
    """Do not say of a message that was given back that it was delivered before."""
    requeue = OrderedQueue.requeue

    def requeue_unmarked(queue: OrderedQueue, entries: Sequence[Entry]) -> None:
        before = [entry.redelivered for entry in entries]
        requeue(queue, entries)
        for entry, flag in zip(entries, before, strict=True):
            entry.redelivered = flag

    patch(OrderedQueue, "requeue", requeue_unmarked)


def prefetch_exceeded(patch: Patch) -> None:
    """Give a consumer one message more than it asked for."""
    credit = Consumer.credit

    def generous(consumer: Consumer) -> int:
        return credit(consumer) + (1 if consumer.prefetch else 0)

    patch(Consumer, "credit", generous)


def several_active_consumers(patch: Patch) -> None:
    """Serve every consumer of a queue with a single active one."""
    patch(Consumers, "active", lambda consumers, consumer: True)


def consumer_timeout_halved(patch: Patch) -> None:
    """Close a channel for a message that it has held for half of the time it may."""
    timeout = Overdue._timeout

    def half(overdue: Overdue, entry: Entry) -> int:
        return timeout(overdue, entry) // 2

    patch(Overdue, "_timeout", half)


MISTAKES = {
    "delivered mark forgotten": Mistake(
        "delivered mark: on disk within its window", delivered_mark_forgotten, (Simulation(2), Model("queue"))
    ),
    "delivered mark for all priorities": Mistake(
        "delivered mark: of its own priority", delivered_mark_for_all_priorities, (Model("priorities"),)
    ),
    "redelivered forgotten": Mistake("redelivered: true after a requeue", redelivered_forgotten, (Model("queue"),)),
    "prefetch exceeded": Mistake("basic.qos", prefetch_exceeded, (Simulation(8),)),
    "several active consumers": Mistake("single active consumer", several_active_consumers, (Simulation(5),)),
    "consumer timeout halved": Mistake("consumer timeout", consumer_timeout_halved, (Simulation(6),)),
}
