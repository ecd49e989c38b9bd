"""Which publishes of a channel are confirmed, and how to say so in few words.

Every publish gets a number. One that needs no disk, or has been refused, is answered at the end of the turn;
the others wait for the batch they were written with. Batches reach the disk in order, so the waiting ones are
a short list of ranges, however many there are. Below the lowest waiting number everything is answered or about
to be: a multiple ack may cover that part. Above it, numbers are answered one by one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple


class Answer(NamedTuple):
    """One basic.ack, or basic.nack where `refused`, to the publisher."""

    tag: int
    multiple: bool
    refused: bool


class ConfirmLedger:
    """The publish numbers of one channel in confirm mode.

    `ready` is called when there is something to answer.
    """

    __slots__ = ("_answerable", "_ready", "_waiting", "last")

    def __init__(self, ready: Callable[[], None]) -> None:
        self._ready = ready
        self.last = 0
        self._waiting: deque[list[int]] = deque()  # [batch, first, last]
        self._answerable: list[list[int]] = []  # [first, last, refused]

    def wait_for(self, batch: int, count: int = 1) -> bool:
        """The next publishes are confirmed with a batch; True if they are the channel's first in that batch."""
        before = self.last
        self.last = before + count
        if self._waiting:
            latest = self._waiting[-1]
            if latest[0] == batch and latest[2] == before:
                latest[2] = self.last
                return False
        self._waiting.append([batch, before + 1, self.last])
        return True

    def settle(self, count: int = 1, *, refused: bool = False) -> None:
        """The next publishes can be answered at once."""
        first = self.last + 1
        self.last += count
        self._answer(first, self.last, refused)

    def stored(self, batch: int) -> None:
        """Everything up to a batch is on disk."""
        while self._waiting and self._waiting[0][0] <= batch:
            _, first, last = self._waiting.popleft()
            self._answer(first, last, refused=False)

    def answers(self) -> list[Answer]:
        """What to tell the publisher now, in as few answers as its rules allow."""
        ranges = sorted(self._answerable)
        self._answerable.clear()
        open_from = self._waiting[0][1] if self._waiting else self.last + 1
        answers: list[Answer] = []
        covered: list[list[int]] = []
        for first, last, refused in ranges:
            if last < open_from and covered and covered[-1][2] == refused:
                covered[-1][1] = last
            elif last < open_from:
                covered.append([first, last, refused])
            else:
                answers.extend(Answer(number, False, bool(refused)) for number in range(first, last + 1))
        return [Answer(last, last > first, bool(refused)) for first, last, refused in covered] + answers

    def _answer(self, first: int, last: int, refused: bool) -> None:
        if not self._answerable:
            self._ready()
        elif self._answerable[-1][1] == first - 1 and self._answerable[-1][2] == refused:
            self._answerable[-1][1] = last
            return
        self._answerable.append([first, last, refused])
