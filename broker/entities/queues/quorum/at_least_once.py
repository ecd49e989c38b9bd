"""At-least-once dead-lettering: a dead message stays in its queue until every target has its dead letter.

This is `x-dead-letter-strategy` at-least-once of quorum queues. If the targets accept the dead letter, its publishes
and the settlement of the original are written with one batch, as for any dead letter. If they do not (no such exchange,
no route, a full queue that refuses), the message moves to a lane of its own in the store, with the reason of its death,
and is retried every second. It is no longer ready, and is not delivered.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from broker.entities.messages.message import Message, QueuedMessage
from broker.entities.queues.queue_background_work import CHUNK_BYTES
from broker.entities.queues.ready_messages import ReadyMessages
from broker.entities.scheduling.background_work import MESSAGE_BYTES, until_done

if TYPE_CHECKING:
    from broker.entities.queues.queue import QueueContext
    from broker.entities.queues.queue_store import QueueStore
    from broker.entities.queues.quorum.quorum_queue import QuorumQueue

RETRY_MILLISECONDS = 1000
"""Time after which dead letters that were not accepted are retried."""

TRIED_AT_ONCE = 32
"""The oldest dead letters that one step retries; RabbitMQ has 32 in flight."""

REASONS = ("rejected", "expired", "maxlen", "delivery_limit")
REASON_SHIFT, _REASON_BITS = 8, 0b111
"""The record of a waiting dead letter has its reason in three bits of its flags: its index in REASONS plus 1."""


class AtLeastOnce:
    """The dead letters of one queue that no target has accepted yet."""

    def __init__(self, queue: QuorumQueue, store: QueueStore, context: QueueContext) -> None:
        self._living_queue: QuorumQueue | None = queue
        self._store = store
        self._ready_messages = ReadyMessages(context.window, partial(store.read, queue))
        self._context = context
        self._retrying = False

    def __len__(self) -> int:
        return len(self._ready_messages)

    @property
    def _queue(self) -> QuorumQueue:
        assert self._living_queue is not None, "a deleted queue has no dead letters"
        return self._living_queue

    @property
    def bytes(self) -> int:
        """Bytes of the bodies of the dead letters that wait."""
        return self._ready_messages.bytes

    @property
    def wanted(self) -> bool:
        """The queue dead-letters at least once. As in RabbitMQ, this needs overflow reject-publish."""
        arguments = self._queue.arguments
        return (
            arguments.dead_letter_strategy == "at-least-once"
            and arguments.dead_letter_exchange is not None
            and arguments.overflow == "reject-publish"
        )

    def add(self, message: Message, reason: str) -> None:
        """Dead-letter a message of the queue now, or keep it if others wait or a target does not accept it."""
        if len(self._ready_messages) or not self._send(message, reason):
            self._wait(message, reason)

    def purge(self, end: int) -> int:
        """Drop all dead letters that wait, at positions below `end`; return their number."""
        self._store.purge(end, ())
        return self._ready_messages.clear()

    def end(self) -> None:
        """Forget the dead letters and the queue, which is deleted."""
        self._ready_messages.end()
        self._living_queue = None

    def restore(self) -> None:
        """Take up the dead letters that are on disk at a start."""
        self._store.restore()
        self._ready_messages.restore(self._store.state.messages, self._store.state.bytes)
        self._retry_later()

    def stored(self, up_to: int) -> None:
        """Note that dead letters up to a position are on disk."""
        self._ready_messages.stored(up_to)

    def check(self) -> None:
        """Raise AssertionError unless the dead letters that wait are sound, and counted in their lane."""
        self._ready_messages.check()
        self._store.check(self._ready_messages.resident(), complete=not self._ready_messages.paging)

    def _send(self, message: Message, reason: str) -> bool:
        sent = self._context.dead_letters.publish_for_certain(self._queue, message, reason)
        self._queue.counters.of_type.dead_letters_confirmed += sent
        return sent

    def _wait(self, message: Message, reason: str) -> None:
        waiting = message.copy()
        waiting.flags |= (REASONS.index(reason) + 1) << REASON_SHIFT
        # A new position, so that the lane is in the order of deaths.
        position = self._queue.next_position(getattr(message, "number", None))
        dead_letter = QueuedMessage(self._queue, position, waiting, len(message.body), 0)
        self._store.put(dead_letter, durable=True)
        self._ready_messages.append(dead_letter)
        self._retry_later()

    def _retry_later(self) -> None:
        if len(self._ready_messages) and not self._retrying:
            self._retrying = True
            self._context.timers.at(self._context.now() + RETRY_MILLISECONDS, self._retry)

    def _retry(self) -> None:
        attempts = until_done(self._try_some, self._retried)
        self._context.background_work.begin(attempts, lambda: self._context.batches.crowded)

    def _retried(self) -> None:
        self._retrying = False
        self._retry_later()

    def _try_some(self) -> int:
        """Retry the oldest dead letters; return the bytes sent. If that is not 0, others are retried at once."""
        waiting, sent, turn = [], 0, self._context.turn
        # A dead letter for many queues costs its copies, whatever its size.
        copies = turn.dead_letter_copies
        for _ in range(TRIED_AT_ONCE):
            if sent >= CHUNK_BYTES or (dead_letter := self._ready_messages.pop()) is None:
                break
            if self._sent(dead_letter):
                self._let_go(dead_letter)
                sent = max(sent + dead_letter.size + MESSAGE_BYTES, MESSAGE_BYTES * (turn.dead_letter_copies - copies))
            else:
                waiting.append(dead_letter)
        self._ready_messages.give_back(waiting)
        return sent

    def _let_go(self, dead_letter: QueuedMessage) -> None:
        if self._queue.events is not None:
            self._queue.events.released(dead_letter)
        self._store.settle((dead_letter,), moved=True)

    def _sent(self, dead_letter: QueuedMessage) -> bool:
        message = dead_letter.message
        assert message is not None, "a waiting dead letter keeps its content"
        reason = REASONS[(message.flags >> REASON_SHIFT & _REASON_BITS) - 1]
        return self._send(message, reason)
