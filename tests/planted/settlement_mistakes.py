"""Mistakes in what becomes of acknowledgements, purges and of what comes back."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partialmethod
from itertools import count

from broker.entities.messages.message import QueuedMessage
from broker.entities.queues.ordered_queue import OrderedQueue
from broker.entities.queues.priority_queue import PriorityStore
from broker.entities.queues.queue import Queue
from broker.entities.queues.queue_store import QueueStore
from broker.entities.queues.quorum.quorum_queue import QuorumQueue
from broker.entities.scheduling.future import Future
from broker.session.channel.channel import Channel
from broker.session.channel.transaction_contents import Settlement
from broker.session.methods import acknowledge
from storage.batch import SealedBatch, SealedLane, WriteBatch
from storage.messages.message_store import MessageStore
from tests.planted.mistake import BrokerCrashes, Kills, Model, Patch, Process, Simulation, mistake

SLOW_COMMIT_SECONDS = 0.02
EVERY = 10

Requeue = Callable[..., None]


@mistake("I2", Model("queue"))
def settle_lost_in_flight(patch: Patch) -> None:
    """Lose an acknowledgement of a message that is in the batch before. The disk is slow, so that there is one."""
    seal, before, commit = WriteBatch.seal, set[int](), MessageStore.commit

    def commit_slowly(store: MessageStore, batch: SealedBatch, *, to_journal: bool = True) -> bool:
        time.sleep(SLOW_COMMIT_SECONDS)
        return commit(store, batch, to_journal=to_journal)

    def seal_losing(batch: WriteBatch, last_event: int = 0) -> SealedBatch:
        sealed = seal(batch, last_event)
        kept = [
            lane._replace(settled=tuple(position for position in lane.settled if position not in before))
            for lane in sealed.lanes
        ]
        before.clear()
        before.update(position for lane in sealed.lanes for position, _put in lane.puts)
        return sealed._replace(lanes=tuple(kept))

    patch(WriteBatch, "seal", seal_losing)
    patch(MessageStore, "commit", commit_slowly)


@mistake(
    "I2",
    Kills("which was gone|which should be in|is there 2 times|half done"),
    Process("tests/pipeline/event_log/test_kill_audit.py"),
)
def acknowledgement_forgotten(patch: Patch) -> None:
    """Write nothing of every tenth settlement, nor count it. Nobody notices before the next start."""
    seal, settlements = WriteBatch.seal, count(1)
    forgotten: Counter[tuple[int, int]] = Counter()

    def seal_forgetting(batch: WriteBatch, last_event: int = 0) -> SealedBatch:
        sealed = seal(batch, last_event)
        return sealed._replace(lanes=tuple(map(forgetting, sealed.lanes)))

    def forgetting(lane: SealedLane) -> SealedLane:
        kept = tuple(position for position in lane.settled if next(settlements) % EVERY)
        forgotten[lane.queue_id, lane.lane] += len(lane.settled) - len(kept)
        messages = lane.counters.messages + forgotten[lane.queue_id, lane.lane]
        return lane._replace(settled=kept, counters=lane.counters._replace(messages=messages))

    patch(WriteBatch, "seal", seal_forgetting)


@mistake("I2", BrokerCrashes())
def acknowledgement_lost(patch: Patch) -> None:
    """Write nothing of some acknowledgements, neither in the messages' lane nor in its counters."""
    settle, calls = Queue.settle, count()

    def settle_some(queue: Queue, entries: Sequence[QueuedMessage]) -> None:
        if next(calls) % 2:
            settle(queue, entries)
        else:
            queue.out.remove(entries)

    patch(Queue, "settle", settle_some)


@mistake("counters: as many as there are", Model("queue"))
def settlement_not_counted(patch: Patch) -> None:
    """Count a settled message as one that is still on disk."""
    settle = QueueStore.settle

    def settle_uncounted(store: QueueStore, entries: Sequence[QueuedMessage], *, moved: bool = False) -> None:
        settle(store, entries, moved=moved)
        store.state.messages += sum(entry.persistent for entry in entries)

    patch(QueueStore, "settle", settle_uncounted)


@mistake("queue.purge: what comes later stays", Model("queue"))
def purge_one_too_far(patch: Patch) -> None:
    """Purge the position at which the purge was asked for as well."""
    purge = QueueStore.purge
    patch(QueueStore, "purge", lambda store, floor, survivors: purge(store, floor + 1, survivors))


@mistake("queue.purge: what consumers hold stays", Model("queue"))
def purge_of_unacknowledged_messages(patch: Patch) -> None:
    """Settle on disk, with a purge, what consumers still hold."""
    purge = QueueStore.purge
    patch(QueueStore, "purge", lambda store, floor, survivors: purge(store, floor, ()))


@mistake("queue.purge: every priority", Model("priorities"))
def purge_of_the_lowest_priority_only(patch: Patch) -> None:
    """Purge only the messages without priority."""

    def purge_lowest(store: PriorityStore, floor: int, survivors: Iterable[QueuedMessage]) -> None:
        store.lane(0).purge(floor, [entry for entry in survivors if not entry.level])

    patch(PriorityStore, "purge", purge_lowest)


@mistake("requeue: once", Simulation(1))
def requeued_twice(patch: Patch) -> None:
    """Have what an ended channel held ready twice."""

    def requeue_twice(
        queue: OrderedQueue, requeue: Requeue, entries: Sequence[QueuedMessage], *, abandoned: bool = False, **how: bool
    ) -> None:
        requeue(queue, entries, abandoned=abandoned, **how)
        if abandoned and not queue.deleted:
            queue.ready_in_order.give_back(entries[:1])

    _patch_requeue(patch, requeue_twice)


@mistake("requeue: what an ended channel held is ready", Simulation(1))
def not_requeued(patch: Patch) -> None:
    """Keep one of the messages that an ended channel held."""

    def requeue_rest(
        queue: OrderedQueue, requeue: Requeue, entries: Sequence[QueuedMessage], *, abandoned: bool = False, **how: bool
    ) -> None:
        requeue(queue, entries[1:] if abandoned else entries, abandoned=abandoned, **how)

    _patch_requeue(patch, requeue_rest)


@mistake("order on a channel", Model("many settlements"))
def settlements_overtaken(patch: Patch) -> None:
    """Handle what follows while the many settlements of one frame are going on."""
    settle_some_at_a_time = acknowledge._settle_some_at_a_time

    def settle_beside(channel: Channel, settlement: Settlement) -> Future[None]:
        settle_some_at_a_time(channel, settlement)
        return Future.resolved(None)

    patch(acknowledge, "_settle_some_at_a_time", settle_beside)


@mistake("turns are bounded", Model("many settlements"))
def settlements_all_at_once(patch: Patch) -> None:
    """Settle in one turn whatever one frame settles."""
    patch(acknowledge, "SETTLED_AT_ONCE", 1 << 30)


def _patch_requeue(patch: Patch, mistaken: Callable[..., None]) -> None:
    """Quorum queues take back what returns in a way of their own."""
    for kind in (OrderedQueue, QuorumQueue):
        patch(kind, "requeue", partialmethod(mistaken, kind.requeue))
