"""A channel whose deliveries, publishes and confirms are recorded: see `broker.entities.queues.event_recording`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from broker.entities.messages.message import Entry, Message
from broker.entities.queues.consumers import Consumer
from broker.entities.queues.event_recording import ACK, CONFIRM, DELIVER, NACK, RETURN, Recorder, name_bytes
from broker.entities.queues.queue import Queue
from broker.session.channel.channel import Channel
from broker.session.channel.confirms import Answer, ConfirmLedger
from broker.wire.field_tables import Field
from broker.wire.method import Method
from broker.wire.methods import TxCommitOk
from broker.wire.properties import decode_properties, encode_header

if TYPE_CHECKING:
    from broker.session.connection import Connection

STAMP = "x-leveret-message-id"
"""The header that a delivered message carries its number in, where that is wanted."""

Numbers = list[int]
"""Runs of message numbers: first, how many, first, how many ..."""


class RecordedChannel(Channel):
    """A channel that tells a recorder what crosses it."""

    def __init__(self, connection: Connection, number: int, recorder: Recorder) -> None:
        super().__init__(connection, number)
        self.recorder = recorder
        self.recorded = self
        self._publisher = name_bytes(self.vhost.name), name_bytes(str(connection.peer)), number
        self._of_transaction: Numbers = []
        self.latest = 0
        """The number of what was published last, or of the first in its run."""

    def published(self, messages: Sequence[Message], *, returned: bool) -> None:
        """The client has published messages, alike but for their bodies, which are about to reach their queues."""
        self.latest = first = self.recorder.published(messages, self._publisher)
        if returned:
            self.recorder.add(RETURN, len(messages), *self._publisher, [first, len(messages)])
        if self.transaction is not None:
            self._of_transaction += (first, len(messages))

    def deliver(self, consumer: Consumer, entries: Sequence[Entry]) -> None:
        """Send deliveries."""
        first = self.deliveries.last + 1
        if self.connection.settings.stamp_message_ids:
            self._deliver_stamped(consumer, entries)
        else:
            super().deliver(consumer, entries)
        self._handed_out(consumer.queue, consumer.tag, first, entries, no_ack=consumer.no_ack)

    def got(self, queue: Queue, entry: Entry, *, no_ack: bool) -> Message:
        """A message is about to leave by basic.get, as what this returns."""
        self._handed_out(queue, "", self.deliveries.last + 1, (entry,), no_ack=no_ack)
        if self.connection.settings.stamp_message_ids:
            return stamped(entry)
        assert entry.message is not None, "a queue hands over what it has loaded"
        return entry.message

    def confirm_ledger(self) -> ConfirmLedger:
        """What confirms of this channel are kept in."""
        return RecordedConfirms(self.confirms_ready, self)

    def send(self, method: Method, *, no_wait: bool = False) -> None:
        """Send a method on this channel. A transaction's end confirms what was published in it."""
        if type(method) is TxCommitOk and self._of_transaction:
            numbers, self._of_transaction = self._of_transaction, []
            self.answered(numbers, refused=False)
        super().send(method, no_wait=no_wait)

    def answered(self, numbers: Numbers, *, refused: bool) -> None:
        """Publishes are confirmed, or refused."""
        self.recorder.add(NACK if refused else CONFIRM, sum(numbers[1::2]), *self._publisher, numbers)

    def _handed_out(self, queue: Queue, tag: str, first: int, entries: Sequence[Entry], *, no_ack: bool) -> None:
        positions = [entry.position for entry in entries]
        again = [entry.redelivered for entry in entries]
        seen = int(again[0]) if len(set(again)) == 1 else again
        vhost, connection, channel = self._publisher
        where = vhost, name_bytes(queue.name)
        self.recorder.add(DELIVER, len(positions), *where, positions, connection, channel, name_bytes(tag), first, seen)
        if no_ack:
            self.recorder.settled(ACK, where, positions, 1)

    def _deliver_stamped(self, consumer: Consumer, entries: Sequence[Entry]) -> None:
        """Send deliveries whose headers say their numbers; the messages themselves stay as they were published."""
        plain = [entry.message for entry in entries]
        for entry in entries:
            entry.message = stamped(entry)
        try:
            super().deliver(consumer, entries)
        finally:
            for entry, message in zip(entries, plain, strict=True):
                entry.message = message


class RecordedConfirms(ConfirmLedger):
    """A ledger of confirms that knows the messages behind the tags."""

    __slots__ = ("_channel", "_messages", "_told")

    def __init__(self, ready: Callable[[], None], channel: RecordedChannel) -> None:
        super().__init__(ready)
        self._channel = channel
        self._messages: deque[list[int]] = deque()  # [first tag, first number, count], ascending
        self._told: list[tuple[int, int, bool]] = []

    def wait_for(self, batch: int, count: int = 1) -> bool:
        """The next publishes are confirmed with a batch."""
        self._note(count)
        return super().wait_for(batch, count)

    def settle(self, count: int = 1, *, refused: bool = False) -> None:
        """The next publishes can be answered at once."""
        self._note(count)
        super().settle(count, refused=refused)

    def answers(self) -> list[Answer]:
        """What to tell the publisher now, recorded."""
        told, self._told = self._told, []
        for refused in (False, True):
            numbers: Numbers = []
            for first, last, nack in told:
                if nack == refused:
                    numbers += self._take(first, last)
            if numbers:
                self._channel.answered(numbers, refused=refused)
        return super().answers()

    def _answer(self, first: int, last: int, refused: bool) -> None:
        self._told.append((first, last, refused))
        super()._answer(first, last, refused)

    def _note(self, count: int) -> None:
        tag, number = self.last + 1, self._channel.latest
        if self._messages:
            latest = self._messages[-1]
            if latest[0] + latest[2] == tag and latest[1] + latest[2] == number:
                latest[2] += count
                return
        self._messages.append([tag, number, count])

    def _take(self, first: int, last: int) -> Numbers:
        """The messages with these tags."""
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


def stamped(entry: Entry) -> Message:
    """A message as it goes out with its number in its headers."""
    message = entry.message
    assert message is not None, "a queue hands over what it has loaded"
    properties = decode_properties(message.header)
    headers = {**(properties.headers or {}), STAMP: Field("l", entry.position)}
    header = encode_header(len(message.body), properties._replace(headers=headers))
    return Message(message.route, header, message.body, message.flags)
