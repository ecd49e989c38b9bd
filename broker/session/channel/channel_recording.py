"""Records a channel's publishes, deliveries and confirms in the event log (`queues/events/event_recording.py`).

A channel has a `ChannelRecorder` if the event log is on, else None, which it checks once for each batch of
publishes or deliveries; likewise its confirm ledger has a `ConfirmRecorder`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from broker.entities.messages.message import Message, QueuedMessage
from broker.entities.queues.events.event_recording import ACK, CONFIRM, DELIVER, NACK, RETURN, Recorder, name_bytes
from broker.entities.queues.queue import Queue
from broker.entities.scheduling.turn import Turn
from broker.wire.field_tables import Field
from broker.wire.properties import decode_properties, encode_header

STAMP = "x-leveret-message-id"
"""The header with a delivered message's number, if `events.stamp_message_ids` is on."""

Numbers = list[int]
"""Ranges of message numbers: first, count, first, count ..."""


class ChannelRecorder:
    """Records the publishes, deliveries and confirms of one channel.

    `peer` is the connection's name. With `stamps` deliveries carry the message's number in a header.
    """

    def __init__(self, recorder: Recorder, vhost: str, peer: str, number: int, *, stamps: bool) -> None:
        self.recorder = recorder
        self._publisher = name_bytes(vhost), name_bytes(peer), number
        self._stamps = stamps
        self._of_transaction: Numbers = []
        self.latest = 0
        """Number of the first message in the batch published last."""

    def published(self, messages: Sequence[Message], queues: int, *, returned: bool, in_transaction: bool) -> None:
        """Record messages, all persistent or none, that are about to reach `queues` queues each."""
        origin = (None, (), 1) if in_transaction else ()
        self.latest = first = self.recorder.published(messages, self._publisher, queues, *origin)
        if returned:
            self.recorder.add(RETURN, len(messages), *self._publisher, [first, len(messages)])
        if in_transaction:
            self._of_transaction += (first, len(messages))

    def turned_away(self) -> None:
        """Note that a queue has refused the message published last, in a transaction: its commit confirms it not."""
        del self._of_transaction[-2:]

    def as_sent(self, entries: Sequence[QueuedMessage]) -> Sequence[QueuedMessage]:
        """Return the deliveries as they are sent, with numbers in headers; the messages in the queue do not change."""
        return [_stamped_copy(entry) for entry in entries] if self._stamps else entries

    def delivered(self, queue: Queue, tag: str, first: int, entries: Sequence[QueuedMessage], *, no_ack: bool) -> None:
        """Record deliveries to the consumer `tag` ("": to basic.get), with delivery tags from `first` on."""
        positions = [entry.position for entry in entries]
        again = [entry.redelivered for entry in entries]
        seen = int(again[0]) if len(set(again)) == 1 else again
        vhost, connection, channel = self._publisher
        where = vhost, name_bytes(queue.name)
        recorder = self.recorder
        recorder.delivering(entries)
        recorder.add(DELIVER, len(positions), *where, positions, connection, channel, name_bytes(tag), first, seen)
        if no_ack:
            recorder.settled(ACK, where, positions, 1)

    def committed(self) -> None:
        """Record the publishes of a transaction as confirmed, right before tx.commit-ok is sent."""
        if self._of_transaction:
            numbers, self._of_transaction = self._of_transaction, []
            self.answered(numbers, refused=False)
            self.recorder.flush()

    def answered(self, numbers: Numbers, *, refused: bool) -> None:
        """Record publishes as confirmed or refused. The caller flushes the recorder before the client is told."""
        self.recorder.add(NACK if refused else CONFIRM, sum(numbers[1::2]), *self._publisher, numbers)


class ConfirmRecorder:
    """Maps the publish numbers of a channel in confirm mode to message numbers, and records confirms."""

    def __init__(self, channel: ChannelRecorder, turn: Turn) -> None:
        self._channel = channel
        self._turn = turn
        self._messages: deque[list[int]] = deque()  # [first tag, first number, count], ascending
        self._answerable: list[tuple[int, int, bool]] = []

    def numbered(self, tag: int, count: int) -> None:
        """Note that the messages published last have the publish numbers from `tag` on."""
        number = self._channel.latest
        if self._messages:
            latest = self._messages[-1]
            if latest[0] + latest[2] == tag and latest[1] + latest[2] == number:
                latest[2] += count
                return
        self._messages.append([tag, number, count])

    def answerable(self, first: int, last: int, *, refused: bool) -> None:
        """Note that these publishes are answered with the next output."""
        if not self._answerable:
            self._channel.recorder.at_turn_end(self._turn, self._record)
        self._answerable.append((first, last, refused))

    def answer(self) -> None:
        """Record the answers that are about to be sent."""
        if self._answerable:
            self._record()
            self._channel.recorder.flush()

    def end(self) -> None:
        """Forget the answers: they will not be sent."""
        self._answerable.clear()

    def _record(self) -> None:
        answerable, self._answerable = self._answerable, []
        for refused in (False, True):
            numbers: Numbers = []
            for first, last, nack in answerable:
                if nack == refused:
                    numbers += self._take(first, last)
            if numbers:
                self._channel.answered(numbers, refused=refused)

    def _take(self, first: int, last: int) -> Numbers:
        """Remove and return the message numbers of the publishes `first` to `last`."""
        numbers: Numbers = []
        kept: list[list[int]] = []
        while self._messages and self._messages[0][0] <= last:
            tag, number, count = self._messages.popleft()
            start, end = max(first, tag), min(last + 1, tag + count)
            if start >= end:
                kept.append([tag, number, count])
                continue
            numbers += (number + start - tag, end - start)
            if tag < start:
                kept.append([tag, number, start - tag])
            if end < tag + count:
                kept.append([end, number + end - tag, tag + count - end])
        self._messages.extendleft(reversed(kept))
        return numbers


def _stamped_copy(entry: QueuedMessage) -> QueuedMessage:
    """Return a copy of an entry whose message has its number in a header. The copy is in no queue."""
    message = entry.message
    assert message is not None, "a queue hands over what it has loaded"
    properties = decode_properties(message.header)
    headers = {**(properties.headers or {}), STAMP: Field("l", entry.position)}
    header = encode_header(len(message.body), properties._replace(headers=headers))
    stamped = Message(message.route, header, message.body, message.flags)
    copy = QueuedMessage(entry.queue, entry.position, stamped, entry.size, entry.expires_at)
    copy.redelivered = entry.redelivered
    return copy
