"""Mistakes in what is written when, and in what order."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from broker.entities.messages.message import Entry, Message
from broker.entities.queues.at_least_once import AtLeastOnce
from broker.entities.queues.delay_queue import DelayQueue
from broker.entities.queues.ordered_queue import OrderedQueue
from broker.entities.queues.queue import Queue
from broker.entities.queues.streams.stream_queue import Stream
from storage.batch import SealedBatch, WriteBatch
from storage.messages import lmdb_environment
from storage.messages.message_store import MessageStore
from tests.durability.planted.mistake import Mistake

SLOW_COMMIT_SECONDS = 0.02
LATER_MILLISECONDS = 30


def confirm_before_commit() -> None:
    """Return from each commit with the batch still in hand, and write it with the next one."""
    commit, in_hand = MessageStore.commit, list[SealedBatch]()

    def commit_later(store: MessageStore, batch: SealedBatch) -> None:
        for earlier in in_hand:
            commit(store, earlier)
        in_hand[:] = [batch]

    MessageStore.commit = commit_later  # type: ignore[method-assign, assignment]


def settle_lost_in_flight() -> None:
    """Lose an acknowledgement of a message that is in the batch before. The disk is slow, so that there is one."""
    seal, before, commit = WriteBatch.seal, set[int](), MessageStore.commit

    def commit_slowly(store: MessageStore, batch: SealedBatch) -> None:
        time.sleep(SLOW_COMMIT_SECONDS)
        commit(store, batch)

    def seal_losing(batch: WriteBatch, last_event: int = 0) -> SealedBatch:
        sealed = seal(batch, last_event)
        kept = [
            lane._replace(settled=tuple(position for position in lane.settled if position not in before))
            for lane in sealed.lanes
        ]
        before.clear()
        before.update(position for lane in sealed.lanes for position, _put in lane.puts)
        return sealed._replace(lanes=tuple(kept))

    WriteBatch.seal = seal_losing  # type: ignore[method-assign, assignment]
    MessageStore.commit = commit_slowly  # type: ignore[method-assign, assignment]


def letter_after_settlement() -> None:
    """Settle a dead message at once, and publish its letter a little later."""

    def discard_first(queue: OrderedQueue, entries: Sequence[Entry], reason: str) -> None:
        dead, context = [entry.message for entry in entries if entry.message is not None], queue._context
        publish = partial(context.dead_letters.publish, queue, dead, reason)
        context.timers.at(context.now() + LATER_MILLISECONDS, publish)
        queue.finish(entries)

    OrderedQueue.discard = discard_first  # type: ignore[method-assign]


def release_after_settlement() -> None:
    """Settle a delayed message that is due at once, and publish it a little later."""

    def let_go_first(queue: DelayQueue, entry: Entry) -> None:
        assert entry.message is not None
        entry.persistent = queue.durable and entry.message.persistent
        queue.finish((entry,))
        context = queue._context
        context.timers.at(context.now() + LATER_MILLISECONDS, partial(queue._release, entry.message, set[Queue]()))

    DelayQueue._let_go = let_go_first  # type: ignore[method-assign]


def settlement_after_release() -> None:
    """Publish a delayed message that is due, and settle it a little later."""
    finish, let_go = DelayQueue.finish, DelayQueue._let_go

    def let_go_last(queue: DelayQueue, entry: Entry) -> None:
        stored, entry.stored = entry.stored, False
        let_go(queue, entry)
        entry.stored = stored
        context = queue._context
        context.timers.at(context.now() + LATER_MILLISECONDS, partial(finish, queue, (entry,)))

    DelayQueue._let_go = let_go_last  # type: ignore[method-assign]


def read_before_sync() -> None:
    """Give readers of a stream what is not on disk yet."""
    publish = Stream.publish

    def publish_visibly(stream: Stream, message: Message) -> bool:
        waits = publish(stream, message)
        stream.stored(0, stream.log.next - 1)
        return waits

    Stream.publish = publish_visibly  # type: ignore[method-assign]


def letter_lost_while_it_waits() -> None:
    """Write nothing of a dead letter that nobody takes; its message is settled all the same."""

    def wait_in_memory(letters: AtLeastOnce, message: Message, reason: str) -> None:
        """Do nothing."""

    AtLeastOnce._wait = wait_in_memory  # type: ignore[method-assign]


def no_directory_sync() -> None:
    """Leave directories unsynced."""

    def sync_directory(directory: Path) -> None:
        """Do nothing."""

    lmdb_environment.sync_directory = sync_directory


MISTAKES = {
    "confirm before commit": Mistake("I1", confirm_before_commit),
    "settle lost in flight": Mistake("I2", settle_lost_in_flight),
    "letter after settlement": Mistake("I12", letter_after_settlement),
    "release after settlement": Mistake("I12", release_after_settlement),
    "settlement after release": Mistake("I12", settlement_after_release),
    "letter lost while it waits": Mistake("I12", letter_lost_while_it_waits),
    "read before sync": Mistake("I11", read_before_sync),
    "no directory sync": Mistake("I10", no_directory_sync),
}
