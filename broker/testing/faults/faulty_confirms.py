"""Confirms that are nacked, delayed, coalesced or withheld at the request of a test."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.session.channel.channel_recording import ConfirmRecorder
from broker.session.channel.confirms import ConfirmLedger
from broker.testing.faults.fault_table import OF_CONFIRMS
from broker.testing.faults.requested_faults import Faults, RequestedFault, Subject

if TYPE_CHECKING:
    from broker.entities.statistics.counters import ChannelCounters


class FaultyConfirms(ConfirmLedger):
    """Checks for each publish of a channel whether a fault is due, and answers it accordingly.

    `subject` returns the publish that is `index` places behind the last one. `later` calls back after some milliseconds
    of the broker's clock.
    """

    __slots__ = ("_faults", "_held", "_later", "_planned", "_subject", "_together")

    def __init__(
        self,
        channel: int,
        counters: ChannelCounters,
        ready: Callable[[ConfirmLedger], None],
        recorder: ConfirmRecorder | None,
        faults: Faults,
        subject: Callable[[int], Subject],
        later: Callable[[float, Callable[[], None]], None],
    ) -> None:
        super().__init__(channel, counters, ready, recorder)
        self._faults = faults
        self._subject = subject
        self._later = later
        self._planned: dict[int, RequestedFault] = {}
        self._held: dict[int, bool] = {}
        """Answerable numbers that a fault holds back, ascending for each fault; True: refused."""
        self._together: dict[RequestedFault, list[int]] = {}

    def wait_for(self, batch: int, count: int = 1) -> bool:
        self._look(count)
        return super().wait_for(batch, count)

    def settle(self, count: int = 1, *, refused: bool = False) -> None:
        self._look(count)
        super().settle(count, refused=refused)

    def _look(self, count: int) -> None:
        if OF_CONFIRMS.isdisjoint(self._faults.names):
            return
        for index in range(count):
            fault = self._faults.fire(OF_CONFIRMS, self._subject(index))
            if fault is not None:
                self._planned[self.last + 1 + index] = fault

    def answer_range(self, first: int, last: int, *, refused: bool) -> None:
        if not self._planned:
            super().answer_range(first, last, refused=refused)
            return
        start = first
        for number in [number for number in range(first, last + 1) if number in self._planned]:
            if start < number:
                super().answer_range(start, number - 1, refused=refused)
            self._obey(self._planned.pop(number), number, refused=refused)
            start = number + 1
        if start <= last:
            super().answer_range(start, last, refused=refused)

    def _obey(self, fault: RequestedFault, number: int, *, refused: bool) -> None:
        if fault.name == "nack-confirms":
            super().answer_range(number, number, refused=True)
            return
        self._held[number] = refused
        if fault.name == "delay-confirms":
            self._later(float(fault.parameters["milliseconds"]), lambda: self._let_go([number]))
        elif fault.name == "coalesce-confirms":
            together = self._together.setdefault(fault, [])
            together.append(number)
            if len(together) >= fault.parameters["count"]:
                self._let_go(self._together.pop(fault))

    def _let_go(self, numbers: list[int]) -> None:
        for number in numbers:
            refused = self._held.pop(number, None)
            if refused is not None:
                super().answer_range(number, number, refused=refused)

    def let_go(self, fault: RequestedFault) -> None:
        """Answer the publishes that a lifted fault still holds together."""
        self._let_go(self._together.pop(fault, []))

    def open_from(self) -> int:
        return min([super().open_from(), *self._held])

    def unanswered_ranges(self) -> list[tuple[int, int]]:
        return [*super().unanswered_ranges(), *((number, number) for number in self._held)]

    def end(self) -> None:
        super().end()
        for kept in (self._planned, self._held, self._together):
            kept.clear()
