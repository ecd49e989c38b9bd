"""Publisher confirms of a channel, and how they are sent in few frames.

Every publish gets a number. One that needs no disk, or was refused, is answered at the end of the turn;
the others wait for the batch that writes them. Batches reach the disk in order, so the waiting numbers are
a short list of ranges. Below the lowest waiting number everything is answered or about
to be: a multiple ack may cover that part. Above it, numbers are answered one by one.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.wire.constants import FRAME_END, FRAME_METHOD
from broker.wire.methods import BasicAck, BasicNack

if TYPE_CHECKING:
    from broker.entities.statistics.counters import ChannelCounters, ExchangeCounters
    from broker.session.channel.channel_recording import ConfirmRecorder

_ANSWER: Final = struct.Struct(">BHIIQBB").pack
"""basic.ack or basic.nack as a frame: type, channel, payload size, method, tag, bits and the frame-end octet."""
_ANSWER_BYTES: Final = 13
_REQUEUE: Final = 2
"""A bit of basic.nack that RabbitMQ sets in confirms; the bit for `multiple` is 1."""


class Answer(NamedTuple):
    """One basic.ack, or basic.nack where `refused`, to the publisher."""

    tag: int
    multiple: bool
    refused: bool


class ConfirmLedger:
    """The publish numbers of one channel in confirm mode.

    `counters` count the confirms. `ready` is called with the ledger when its first answer becomes due after there
    were none. `recorder`, present if the event log is on, sees every publish and every answer.
    """

    __slots__ = (
        "_answerable",
        "_answered",
        "_channel",
        "_counters",
        "_exchanges",
        "_ready",
        "_recorder",
        "_waiting",
        "exchange",
        "last",
    )

    def __init__(
        self,
        channel: int,
        counters: ChannelCounters,
        ready: Callable[[ConfirmLedger], None],
        recorder: ConfirmRecorder | None = None,
    ) -> None:
        self._channel = channel
        self._counters = counters
        self._ready = ready
        self._recorder = recorder
        self.exchange: ExchangeCounters | None = None
        """Counters of the exchange that the next publishes go to: see `publish_to`."""
        self._exchanges: list[tuple[int, ExchangeCounters]] = []
        """Counters of the publishes from a number on; the last are those of `exchange`."""
        self.last = 0
        self._answered = 0
        self._waiting: deque[list[int]] = deque()  # [batch, first, last]
        self._answerable: list[list[int]] = []  # [first, last, refused]

    @property
    def unanswered(self) -> int:
        """Number of publishes that were neither confirmed nor refused."""
        return self.last - self._answered

    def publish_to(self, exchange: ExchangeCounters) -> None:
        """Have the confirms of the publishes from the next one on counted for another exchange."""
        self.exchange = exchange
        self._exchanges.append((self.last + 1, exchange))

    def wait_for(self, batch: int, count: int = 1) -> bool:
        """Have the next `count` publishes wait for `batch`. True if the ledger has to be told when it is on disk."""
        before = self.last
        self.last = before + count
        if self._recorder is not None:
            self._recorder.numbered(before + 1, count)
        if self._waiting:
            latest = self._waiting[-1]
            if latest[0] == batch and latest[2] == before:
                latest[2] = self.last
                return False
        self._waiting.append([batch, before + 1, self.last])
        return True

    def settle(self, count: int = 1, *, refused: bool = False) -> None:
        """Give the next `count` publishes numbers that are answered at the end of the turn."""
        first = self.last + 1
        self.last += count
        if self._recorder is not None:
            self._recorder.numbered(first, count)
        self.answer_range(first, self.last, refused=refused)

    def stored(self, batch: int) -> None:
        """Make the publishes that wait for batches up to this one answerable: they are on disk."""
        while self._waiting and self._waiting[0][0] <= batch:
            _, first, last = self._waiting.popleft()
            self.answer_range(first, last, refused=False)

    def answers(self) -> list[Answer]:
        """Return the acks and nacks to send now, in as few frames as AMQP allows; they count as answered."""
        ranges = sorted(self._answerable)
        self._answerable.clear()
        self._counters.publish_confirmed = self.last
        if self._recorder is not None:
            self._recorder.answer()
        open_from = self.open_from()
        self._count_by_exchange(ranges, open_from)
        answers: list[Answer] = []
        covered: list[list[int]] = []
        for first, last, refused in ranges:
            self._answered += last - first + 1
            if not refused:
                self._counters.confirm += last - first + 1
            # Below `open_from` no publish waits, so one multiple frame may cover ranges that do not touch.
            if last < open_from and covered and covered[-1][2] == refused:
                covered[-1][1] = last
            elif last < open_from:
                covered.append([first, last, refused])
            else:
                answers.extend(Answer(number, False, bool(refused)) for number in range(first, last + 1))
        return [Answer(last, last > first, bool(refused)) for first, last, refused in covered] + answers

    def _count_by_exchange(self, ranges: list[list[int]], open_from: int) -> None:
        """Count the confirms among sorted ranges for their exchanges; forget those of answered publishes."""
        exchanges, place = self._exchanges, 0
        if not exchanges:
            return
        for first, last, refused in ranges:
            while first <= last:
                while place + 1 < len(exchanges) and exchanges[place + 1][0] <= first:
                    place += 1
                end = min(last, exchanges[place + 1][0] - 1) if place + 1 < len(exchanges) else last
                if not refused:
                    exchanges[place][1].confirm += end - first + 1
                first = end + 1
        answered = sum(number <= open_from for number, _ in exchanges[1:]) if len(exchanges) > 1 else 0
        del exchanges[:answered]

    def open_from(self) -> int:
        """Return the lowest publish number that waits for the disk, or the next number if none does."""
        return self._waiting[0][1] if self._waiting else self.last + 1

    def unanswered_ranges(self) -> list[tuple[int, int]]:
        """Return ranges of all publish numbers that are not answered."""
        waiting = [(first, last) for _, first, last in self._waiting]
        return waiting + [(first, last) for first, last, _ in self._answerable]

    def frames(self) -> list[bytes]:
        """Return `answers` as frames."""
        return [
            _ANSWER(FRAME_METHOD, self._channel, _ANSWER_BYTES, BasicNack.KEY, tag, multiple | _REQUEUE, FRAME_END)
            if refused
            else _ANSWER(FRAME_METHOD, self._channel, _ANSWER_BYTES, BasicAck.KEY, tag, multiple, FRAME_END)
            for tag, multiple, refused in self.answers()
        ]

    def end(self) -> None:
        """Drop all answers: the channel has ended."""
        if self._recorder is not None:
            self._recorder.end()
            self._recorder = None
        self._counters.publish_confirmed = self.last
        self._waiting.clear()
        self._answerable.clear()
        self._answered = self.last

    def check(self) -> None:
        """Raise AssertionError unless each publish either waits, or can be answered, or has been answered."""
        waiting = [(first, last) for _, first, last in self._waiting]
        batches = [batch for batch, _, _ in self._waiting]
        assert batches == sorted(batches), f"waiting for batches out of order: {batches}"
        assert waiting == sorted(waiting), f"waiting ranges out of order: {waiting}"
        ranges = sorted(self.unanswered_ranges())
        for first, last in ranges:
            assert 1 <= first <= last <= self.last, f"range {first} to {last} of {self.last} publishes"
        for (_, before), (first, _) in pairwise(ranges):
            assert before < first, f"publish {first} is in two of the ranges {ranges}"
        unanswered = sum(last - first + 1 for first, last in ranges)
        assert self._answered + unanswered == self.last, (
            f"{self.last} publishes, {self._answered} answers and {unanswered} to come"
        )

    def answer_range(self, first: int, last: int, *, refused: bool) -> None:
        """Have a range of publishes answered with the connection's next output."""
        if self._recorder is not None:
            self._recorder.answerable(first, last, refused=refused)
        if not self._answerable:
            self._ready(self)
        elif self._answerable[-1][1] == first - 1 and self._answerable[-1][2] == refused:
            self._answerable[-1][1] = last
            return
        self._answerable.append([first, last, refused])
