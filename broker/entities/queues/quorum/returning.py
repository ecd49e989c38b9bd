"""Messages that come back to a quorum queue: first again, at the end, after a delay, or discarded."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from broker.entities.arguments.delayed_retry import DelayedRetry
from broker.entities.arguments.queue_arguments import QueueArguments
from broker.entities.arguments.quorum_priorities import DEFAULT
from broker.entities.messages.message import QueuedMessage
from broker.entities.queues.quorum import rehearsed_returns
from broker.entities.queues.quorum.quorum_entry import QuorumEntry
from broker.entities.queues.quorum.quorum_store import RETRIES

if TYPE_CHECKING:
    from broker.entities.queues.quorum.quorum_queue import QuorumQueue
    from broker.entities.queues.quorum.quorum_store import QuorumStore


class Returning:
    """Takes messages back into one queue."""

    def __init__(self, queue: QuorumQueue, store: QuorumStore) -> None:
        self._living_queue: QuorumQueue | None = queue
        self._store = store
        self._started_at = 0

    @property
    def _queue(self) -> QuorumQueue:
        assert self._living_queue is not None, "nothing comes back to a deleted queue"
        return self._living_queue

    def take_back(self, entries: Sequence[QueuedMessage], now: int, *, abandoned: bool, rejected: bool) -> None:
        """Take back messages that are unacknowledged: see `Queue.requeue`."""
        rules, failed, work = self._queue.rules, abandoned or rejected, self._queue.background_work
        if not failed and rules.failures_apart:
            for entry in entries:
                entry.uncount()
                self._store.count(entry)
        if self._queue.watch is not None:
            rehearsed_returns.note(self._queue.watch, self._queue, rules, entries, failed=failed, abandoned=abandoned)
        if back := [entry for entry in entries if not rules.exhausted(entry)]:
            retry = rules.retry
            if retry is not None and retry.delay(1, failed=failed):
                delay = partial(self._delay, retry, now, abandoned=abandoned, failed=failed)
                work.take_in(back, delay, writes=True, first=False, ready=True)
            elif rules.to_the_end and not abandoned:
                work.take_in(back, self._put_at_the_end, writes=True, first=False, ready=True)
            else:
                first = partial(self._put_first, abandoned=abandoned)
                work.take_in(back, first, writes=False, first=True, ready=True)
        if exhausted := [entry for entry in entries if rules.exhausted(entry)]:
            # The disk may be full until after a change of policies: the dead letters are those of now.
            drop = partial(self._drop_some, abandoned=abandoned, arguments=rules.arguments)
            work.take_in(exhausted, drop, writes=True, first=False, ready=False)

    def _put_first(self, entries: Sequence[QueuedMessage], *, abandoned: bool) -> int:
        self._count_out(entries, abandoned=abandoned)
        self._queue.give_back(entries)
        return len(entries)

    def _drop_some(self, entries: Sequence[QueuedMessage], *, abandoned: bool, arguments: QueueArguments) -> int:
        if arguments.dead_letter_exchange is not None:
            entries = entries[:1]  # one dead letter per step: it may go to very many queues
        self._count_out(entries, abandoned=abandoned)
        for entry in entries:
            self._drop(entry, arguments)
        return len(entries)

    def _drop(self, entry: QueuedMessage, arguments: QueueArguments) -> None:
        self._queue.load(entry)
        self._queue.discard((entry,), "delivery_limit", arguments)

    def _count_out(self, entries: Sequence[QueuedMessage], *, abandoned: bool) -> None:
        if self._queue.events is not None:
            self._queue.events.requeued(entries, abandoned=abandoned)
        self._queue.out.remove(entries)
        for entry in entries:
            entry.conceal()

    # To another place

    def _put_at_the_end(self, entries: Sequence[QueuedMessage]) -> int:
        for again in self._moved(entries, abandoned=False):
            again.level = DEFAULT
            self._store.put(again, durable=True)
            self._store.count(again)
            self._queue.ready_in_order.append(again)
        return self._settle(entries)

    def _delay(
        self, retry: DelayedRetry, now: int, entries: Sequence[QueuedMessage], *, abandoned: bool, failed: bool
    ) -> int:
        for again in self._moved(entries, abandoned=abandoned):
            self._queue.delayed.add(again, now + retry.delay(self._queue.rules.counted(again), failed=failed))
        return self._settle(entries)

    def _moved(self, entries: Sequence[QueuedMessage], *, abandoned: bool) -> list[QuorumEntry]:
        """Return messages at new positions behind all others, without those that cannot be read."""
        self._count_out(entries, abandoned=abandoned)
        self._store.load([entry for entry in entries if entry.message is None])
        return [self._again(entry) for entry in entries if entry.message is not None]

    def _again(self, entry: QueuedMessage) -> QuorumEntry:
        assert isinstance(entry, QuorumEntry), "a message of a quorum queue"
        return entry.again(self._queue.next_position(entry.position))

    def _settle(self, entries: Sequence[QueuedMessage]) -> int:
        self._store.settle(entries, moved=True)
        if self._queue.limits.on_length:
            self._queue.limits.drop_excess_of_returned()
        self._queue.touch()
        return len(entries)

    # From the process that died

    def started(self, now: int) -> None:
        """Note when the broker was started with messages of earlier processes."""
        self._started_at = now

    def comes_back(self, entry: QueuedMessage, now: int) -> bool:
        """Return whether a message has to be discarded or delayed: its channel ended with the process.

        It was delivered before the start, read from disk, and not delivered since.
        """
        if not (self._started_at and entry.read_back and entry.deliveries and self._queue.is_earlier(entry)):
            return False
        return self._queue.rules.exhausted(entry) or self._due_again(entry) > now

    def _due_again(self, entry: QueuedMessage) -> int:
        """Return until when such a message is delayed; 0: it is not, or was it before that delivery."""
        retry = self._queue.rules.retry
        delay = (
            0 if retry is None or entry.level == RETRIES else retry.delay(self._queue.rules.counted(entry), failed=True)
        )
        return self._started_at + delay if delay else 0

    def finish(self, entry: QueuedMessage) -> None:
        """Discard or delay such a message, which was taken out of the ready ones."""
        if self._queue.rules.exhausted(entry):
            self._drop(entry, self._queue.arguments)
        elif self._queue.load(entry):
            self._queue.delayed.add(self._again(entry), self._due_again(entry))
            self._store.settle((entry,), moved=True)

    def end(self) -> None:
        """Forget the queue, which is deleted."""
        self._living_queue = None
