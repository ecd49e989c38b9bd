"""Confirms that are refused, late, together or never, where a test has ordered it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.session.channel.channel_recording import ConfirmRecorder
from broker.session.channel.confirms import ConfirmLedger
from broker.testing.faults.fault_orders import FaultOrder, Faults, Subject
from broker.testing.faults.fault_table import OF_CONFIRMS

if TYPE_CHECKING:
    from broker.entities.statistics.counters import ChannelCounters


class FaultyConfirms(ConfirmLedger):
    """Looks at each publish of a channel whether a fault is due; its number is then answered as the fault says.

    `subject` says what the publish is that comes `index` places behind the last one. `later` calls back after so many
    milliseconds of the broker's clock.
    """

    __slots__ = ("_faults", "_held", "_later", "_ordered", "_subject", "_together")

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
        self._ordered: dict[int, FaultOrder] = {}
        self._held: dict[int, bool] = {}
        """Numbers that can be answered and are not, ascending for each fault, and whether they were refused."""
        self._together: dict[FaultOrder, list[int]] = {}

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
            order = self._faults.fire(OF_CONFIRMS, self._subject(index))
            if order is not None:
                self._ordered[self.last + 1 + index] = order

    def answer_range(self, first: int, last: int, *, refused: bool) -> None:
        if not self._ordered:
            super().answer_range(first, last, refused=refused)
            return
        start = first
        for number in [number for number in range(first, last + 1) if number in self._ordered]:
            if start < number:
                super().answer_range(start, number - 1, refused=refused)
            self._obey(self._ordered.pop(number), number, refused=refused)
            start = number + 1
        if start <= last:
            super().answer_range(start, last, refused=refused)

    def _obey(self, order: FaultOrder, number: int, *, refused: bool) -> None:
        if order.name == "nack-confirms":
            super().answer_range(number, number, refused=True)
            return
        self._held[number] = refused
        if order.name == "delay-confirms":
            self._later(float(order.parameters["milliseconds"]), lambda: self._let_go([number]))
        elif order.name == "coalesce-confirms":
            together = self._together.setdefault(order, [])
            together.append(number)
            if len(together) >= order.parameters["count"]:
                self._let_go(self._together.pop(order))

    def _let_go(self, numbers: list[int]) -> None:
        for number in numbers:
            refused = self._held.pop(number, None)
            if refused is not None:
                super().answer_range(number, number, refused=refused)

    def let_go(self, order: FaultOrder) -> None:
        """A fault is lifted: what it still gathers is answered."""
        self._let_go(self._together.pop(order, []))

    def open_from(self) -> int:
        return min([super().open_from(), *self._held])

    def unanswered_ranges(self) -> list[tuple[int, int]]:
        return [*super().unanswered_ranges(), *((number, number) for number in self._held)]

    def end(self) -> None:
        super().end()
        for kept in (self._ordered, self._held, self._together):
            kept.clear()
