"""Mistakes that are planted in the broker of a simulated world, which has to find them (`test_mistakes.py`).

Each takes what sets an attribute - `pytest.MonkeyPatch.setattr`, or `setattr` for the life of a process - and names a
seed among the first eight that finds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial, partialmethod
from typing import Any, NamedTuple

from broker.entities.messages.message import Entry, Message
from broker.entities.queues.batch_queue import BatchQueue
from broker.entities.queues.consumers import Consumer, Consumers
from broker.entities.queues.delay_queue import DelayQueue
from broker.entities.queues.ordered_queue import OrderedQueue
from broker.entities.queues.queue import Queue
from broker.entities.queues.queue_limits import Limits
from broker.entities.queues.queue_store import QueueStore
from broker.entities.queues.quorum_queue import QuorumQueue
from broker.entities.queues.ready_messages import ReadyMessages
from broker.entities.queues.streams.stream_queue import Stream
from broker.entities.scheduling import clock
from broker.entities.scheduling.alarms import Alarms
from broker.entities.scheduling.clock import SteadyClock
from broker.entities.scheduling.future import Future
from broker.server.definition_writer import DefinitionLog
from broker.session.channel.channel import Channel
from broker.session.channel.confirms import ConfirmLedger
from broker.session.channel.transaction import Transaction
from broker.session.consumer_timeout import Overdue
from storage.batch import SealedBatch, WriteBatch

Patch = Callable[[Any, str, Any], None]
Requeue = Callable[..., None]

LATER_MILLISECONDS = 30
LONG_AFTER_MILLISECONDS = 400


class Planted(NamedTuple):
    """A mistake, and a seed that finds it."""

    plant: Callable[[Patch], None]
    seed: int


def an_ack_is_lost_in_flight(patch: Patch) -> None:
    """What is acknowledged while its batch is on its way to disk is not settled there."""
    seal, before = WriteBatch.seal, set[int]()

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


def a_confirm_does_not_wait(patch: Patch) -> None:
    """Publishers are told when a batch is closed, not when it is on disk."""
    seal = BatchQueue.seal

    def seal_and_tell(batches: BatchQueue) -> None:
        waiters, number = list(batches.current.waiters), batches.current.number
        seal(batches)
        for waiter in waiters:
            if isinstance(waiter, ConfirmLedger):
                waiter.stored(number)

    patch(BatchQueue, "seal", seal_and_tell)


def what_comes_back_goes_to_the_end(patch: Patch) -> None:
    """Returned messages lose their places."""

    def give_back(ready_messages: ReadyMessages, entries: Sequence[Entry]) -> None:
        for entry in entries:
            ready_messages.append(entry)

    patch(ReadyMessages, "give_back", give_back)


def a_letter_comes_after_the_settlement(patch: Patch) -> None:
    """A dead message is settled at once, its letter is published a little later."""

    def discard_first(queue: OrderedQueue, entries: Sequence[Entry], reason: str) -> None:
        dead, context = [entry.message for entry in entries if entry.message is not None], queue._context
        publish = partial(context.dead_letters.publish, queue, dead, reason)
        context.timers.at(context.now() + LATER_MILLISECONDS, publish)
        queue.finish(entries)

    patch(OrderedQueue, "discard", discard_first)


def time_to_live_goes_by_the_wall_clock(patch: Patch) -> None:
    """The broker's clock follows whoever sets the machine's."""

    def now(steady: SteadyClock) -> int:
        return int(clock.time.time() * 1000)

    patch(SteadyClock, "now", now)


def a_prefetch_is_one_too_many(patch: Patch) -> None:
    """A consumer is given one message more than it asked for."""
    credit = Consumer.credit

    def generous(consumer: Consumer) -> int:
        return credit(consumer) + (1 if consumer.prefetch else 0)

    patch(Consumer, "credit", generous)


def a_closed_channel_gives_back_twice(patch: Patch) -> None:
    """What an ended channel held is ready twice."""

    def twice(queue: OrderedQueue, requeue: Requeue, entries: Sequence[Entry], *, abandoned: bool = False) -> None:
        requeue(queue, entries, abandoned=abandoned)
        if abandoned and not queue.deleted:
            queue.ready_messages.give_back(entries[:1])

    _patch_requeue(patch, twice)


def a_closed_channel_keeps_one(patch: Patch) -> None:
    """One of the messages that an ended channel held does not come back."""

    def losing(queue: OrderedQueue, requeue: Requeue, entries: Sequence[Entry], *, abandoned: bool = False) -> None:
        requeue(queue, entries[1:] if abandoned else entries, abandoned=abandoned)

    _patch_requeue(patch, losing)


def _patch_requeue(patch: Patch, mistaken: Callable[..., None]) -> None:
    """Quorum queues take back what returns in a way of their own."""
    for kind in (OrderedQueue, QuorumQueue):
        patch(kind, "requeue", partialmethod(mistaken, kind.requeue))


def a_delivery_is_not_remembered(patch: Patch) -> None:
    """After a crash nobody knows what was delivered before."""
    patch(QueueStore, "delivered", lambda lane, entries: None)


def a_purge_takes_what_is_out(patch: Patch) -> None:
    """A purge settles on disk what consumers still hold."""
    purge = QueueStore.purge

    def take_all(lane: QueueStore, floor: int, survivors: Iterable[Entry]) -> None:
        purge(lane, floor, ())

    patch(QueueStore, "purge", take_all)


def an_alarm_lets_publishers_through(patch: Patch) -> None:
    """Nobody is held while memory or disk are short."""

    def do_nothing(alarms: Alarms, resource: str, *, short: bool) -> None:
        """Nobody is told."""

    patch(Alarms, "set", do_nothing)


def an_alarm_holds_acknowledgements(patch: Patch) -> None:
    """What frees memory waits until there is memory."""
    handle = Channel.handle

    def wait(channel: Channel, key: int, action: Any, size: int, *, may_pass: bool = False) -> None:
        handle(channel, key, action, size)

    patch(Channel, "handle", wait)


def a_declaration_does_not_wait(patch: Patch) -> None:
    """A durable queue is announced before it is on disk."""
    write = DefinitionLog.write

    def promise(log: DefinitionLog, *changes: Any) -> Future[None]:
        write(log, *changes)
        return Future.resolved(None)

    patch(DefinitionLog, "write", promise)


def a_transaction_is_cut_in_two(patch: Patch) -> None:
    """Publishes of a transaction go to disk before its acknowledgements."""
    clear = Transaction.clear

    def cut(transaction: Transaction) -> None:
        if transaction.publishes and transaction.settlements:
            enqueue: Any = transaction.publishes[0]
            channel: Channel = enqueue.args[0]
            transaction.publishes.append(partial(_seal, channel))
        clear(transaction)

    patch(Transaction, "clear", cut)


def _seal(channel: Channel) -> None:
    batches = channel.connection.broker.batches
    batches.seal()


def messages_expire_early(patch: Patch) -> None:
    """A time to live is cut by a tenth."""
    expires_at = Limits.expires_at

    def early(limits: Limits, message: Message) -> int:
        found = expires_at(limits, message)
        return found and found - (found - limits._now()) // 10

    patch(Limits, "expires_at", early)


def messages_expire_late(patch: Patch) -> None:
    """A time to live is a second longer than asked for."""
    expires_at = Limits.expires_at

    def late(limits: Limits, message: Message) -> int:
        found = expires_at(limits, message)
        return found and found + 1000

    patch(Limits, "expires_at", late)


def a_delay_is_too_short(patch: Patch) -> None:
    """A delayed message comes before its time."""
    add = DelayQueue._add

    def early(queue: DelayQueue, due: int, position: int, size: int) -> None:
        add(queue, due - 50, position, size)

    patch(DelayQueue, "_add", early)


def a_delay_is_released_in_two_writes(patch: Patch) -> None:
    """A delayed message that is due is settled at once, and published a little later."""

    def let_go_first(queue: DelayQueue, entry: Entry) -> None:
        assert entry.message is not None
        entry.persistent = queue.durable and entry.message.persistent
        queue.finish((entry,))
        context = queue._context
        context.timers.at(context.now() + LONG_AFTER_MILLISECONDS, partial(queue._release, entry.message))

    patch(DelayQueue, "_let_go", let_go_first)


def a_stream_is_read_before_it_is_synced(patch: Patch) -> None:
    """Readers of a stream are given what a crash may take back."""
    publish = Stream.publish

    def publish_visibly(stream: Stream, message: Message) -> bool:
        waits = publish(stream, message)
        stream.stored(0, stream.log.next - 1)
        return waits

    patch(Stream, "publish", publish_visibly)


def those_that_stand_by_are_served(patch: Patch) -> None:
    """A single active consumer is not the only one."""
    patch(Consumers, "active", lambda consumers, consumer: True)


def an_expiry_comes_although_the_queue_is_used(patch: Patch) -> None:
    """Nobody's interest in a queue counts."""
    patch(Queue, "use", lambda queue: None)


def acknowledgements_are_late_too_soon(patch: Patch) -> None:
    """A channel is closed for a message that it has held for half of the time it may."""
    timeout = Overdue._timeout

    def half(overdue: Overdue, entry: Entry) -> int:
        return timeout(overdue, entry) // 2

    patch(Overdue, "_timeout", half)


MISTAKES = {
    plant.__name__: Planted(plant, seed)
    for plant, seed in [
        (an_ack_is_lost_in_flight, 1),
        (a_confirm_does_not_wait, 2),
        (what_comes_back_goes_to_the_end, 8),
        (a_letter_comes_after_the_settlement, 2),
        (time_to_live_goes_by_the_wall_clock, 1),
        (a_prefetch_is_one_too_many, 8),
        (a_closed_channel_gives_back_twice, 2),
        (a_closed_channel_keeps_one, 5),
        (a_delivery_is_not_remembered, 2),
        (a_purge_takes_what_is_out, 2),
        (an_alarm_lets_publishers_through, 5),
        (an_alarm_holds_acknowledgements, 2),
        (a_declaration_does_not_wait, 3),
        (a_transaction_is_cut_in_two, 3),
        (messages_expire_early, 7),
        (messages_expire_late, 4),
        (a_delay_is_too_short, 2),
        (a_delay_is_released_in_two_writes, 2),
        (a_stream_is_read_before_it_is_synced, 2),
        (those_that_stand_by_are_served, 5),
        (an_expiry_comes_although_the_queue_is_used, 7),
        (acknowledgements_are_late_too_soon, 6),
    ]
}
