"""Mistakes in what is delivered to whom, and in what says that it was."""

from __future__ import annotations

from collections.abc import Sequence

from broker.entities.messages.message import QueuedMessage
from broker.entities.queues.consumer_prefetch import Consumer
from broker.entities.queues.consumers import Consumers
from broker.entities.queues.ordered_queue import OrderedQueue
from broker.entities.queues.priority_queue import PriorityStore
from broker.entities.queues.queue_store import QueueStore
from broker.session.consumer_timeout import Overdue
from tests.planted.mistake import Model, Patch, Simulation, mistake


@mistake("delivered mark: on disk within its window", Model("queue"))
def delivered_mark_forgotten(patch: Patch) -> None:
    """Write nothing of deliveries: after a crash nobody knows of them."""
    patch(QueueStore, "delivered", lambda store, entries: None)


@mistake("delivered mark: of its own priority", Model("priorities"))
def delivered_mark_for_all_priorities(patch: Patch) -> None:
    """Mark every priority up to a delivery's position: what is below it need not have been delivered."""

    def delivered(store: PriorityStore, entries: Sequence[QueuedMessage]) -> None:
        for lane in store._lanes.values():
            lane.delivered(entries)

    patch(PriorityStore, "delivered", delivered)


@mistake("redelivered: true after a requeue", Model("queue"))
def redelivered_forgotten(patch: Patch) -> None:
    """Do not say of a message that was given back that it was delivered before."""
    requeue = OrderedQueue.requeue

    def requeue_unmarked(queue: OrderedQueue, entries: Sequence[QueuedMessage], **how: bool) -> None:
        before = [entry.redelivered for entry in entries]
        requeue(queue, entries, **how)
        for entry, flag in zip(entries, before, strict=True):
            entry.redelivered = flag

    patch(OrderedQueue, "requeue", requeue_unmarked)


@mistake("basic.qos", Simulation(1))
def prefetch_exceeded(patch: Patch) -> None:
    """Give a consumer one message more than it asked for."""
    credit = Consumer.credit
    patch(Consumer, "credit", lambda consumer: credit(consumer) + bool(consumer.prefetch))


@mistake("single active consumer", Simulation(2))
def several_active_consumers(patch: Patch) -> None:
    """Serve every consumer of a queue with a single active one."""
    patch(Consumers, "active", lambda consumers, consumer: True)


@mistake("single active consumer: order", Simulation(92))
def successor_served_at_the_cancel(patch: Patch) -> None:
    """Serve the next single active consumer while messages are out with the one that was cancelled."""
    patch(Consumers, "_waits", lambda consumers, consumer: False)


@mistake("consumer timeout", Simulation(25))
def consumer_timeout_halved(patch: Patch) -> None:
    """Close a channel for a message that it has held for half of the time it may."""
    timeout = Overdue._timeout
    patch(Overdue, "_timeout", lambda overdue, entry: timeout(overdue, entry) // 2)
