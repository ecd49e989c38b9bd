"""The faults that are ordered: to what they apply, how often, and whether one is due now."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Set
from fnmatch import fnmatchcase
from itertools import count
from random import Random
from threading import Lock
from typing import Any

from broker.admin.protocol import invalid, not_found
from broker.testing.faults.fault_table import FAULTS, NOW, STANDING, Parameter
from broker.testing.request_arguments import RequestArguments

log = logging.getLogger("leveret.testing")

ORDERS_MAX = 1000
COUNTING = ("times", "skip", "chance", "seed")
"""What all but STANDING take: how often it happens, how many it passes over, how likely each is, chance's seed."""
TIMES_MAX = 1_000_000_000

Subject = Mapping[str, str | int | tuple[str, ...] | None]
"""What a fault might happen to, by the names of scopes; of several names each counts."""


class FaultOrder:
    """A fault that a test has ordered. `left` is None until it is lifted, else how often it still happens."""

    def __init__(
        self, number: int, name: str, parameters: dict[str, Any], scope: dict[str, str | int], counting: dict[str, Any]
    ) -> None:
        self.number = number
        self.name = name
        self.parameters = parameters
        self.scope = scope
        self.left: int | None = counting["times"]
        self.skip: int = counting["skip"]
        self.chance: float = counting["chance"]
        self.fired = 0
        self._random = Random(counting["seed"])

    def fits(self, subject: Subject) -> bool:
        """It may happen to this."""
        if self.parameters.get("on", NOW) != subject.get("method", NOW) and "on" in self.parameters:
            return False
        return all(_fits(wanted, subject.get(name)) for name, wanted in self.scope.items())

    def takes(self) -> bool:
        """It is its turn to happen, once more."""
        if self.left == 0:
            return False
        if self.skip:
            self.skip -= 1
            return False
        if self.chance < 1 and self._random.random() >= self.chance:
            return False
        self.left = None if self.left is None else self.left - 1
        self.fired += 1
        return True

    def shown(self) -> dict[str, Any]:
        """The order, how often it has happened, and how often it still may."""
        asked = {**self.parameters, **self.scope}
        return {"id": self.number, "fault": self.name, **asked, "fired": self.fired, "left": self.left}


def _fits(wanted: str | int, found: str | int | tuple[str, ...] | None) -> bool:
    if isinstance(wanted, int) or isinstance(found, int):
        return str(wanted) == str(found)
    names = found if isinstance(found, tuple) else (found,)
    return any(name is not None and fnmatchcase(name, wanted) for name in names)


class Faults:
    """All orders, from the first to come."""

    def __init__(self) -> None:
        self.orders: dict[int, FaultOrder] = {}
        self.names: Set[str] = frozenset()
        """The faults that are ordered: looked at before anything else."""
        self._begin: Callable[[FaultOrder], None] = _nothing
        self._end: Callable[[FaultOrder], None] = _nothing
        self._numbers = count(1)
        self._lock = Lock()  # the thread that commits asks, too

    def attach(self, begin: Callable[[FaultOrder], None], end: Callable[[FaultOrder], None]) -> None:
        """There is a broker: `begin` is called with each order that is new, `end` with each that is lifted."""
        self._begin, self._end = begin, end

    def order(self, given: Mapping[str, object]) -> FaultOrder:
        """Take an order. Raises AdministrationError `not_found` for an unknown fault, `invalid` for anything else."""
        arguments = RequestArguments(given)
        name = arguments.text("fault")
        if name not in FAULTS:
            raise not_found(f"there is no fault {name}; known: {', '.join(FAULTS)}")
        if len(self.orders) >= ORDERS_MAX:
            self.orders = {number: order for number, order in self.orders.items() if order.left != 0}
        if len(self.orders) >= ORDERS_MAX:
            raise invalid(f"{ORDERS_MAX} faults are ordered: lift some (DELETE /api/testing/faults)")
        order = _read(next(self._numbers), name, arguments, given)
        self._begin(order)
        with self._lock:
            self.orders[order.number] = order
            self._names_changed()
        return order

    def lift(self, number: int) -> None:
        """Have a fault happen no more. Raises AdministrationError `not_found`."""
        with self._lock:
            order = self.orders.pop(number, None)
            self._names_changed()
        if order is None:
            raise not_found(f"there is no fault with the id {number}")
        self._end(order)

    def lift_all(self) -> int:
        """Have no fault happen any more; how many there were."""
        numbers = list(self.orders)
        for number in numbers:
            self.lift(number)
        return len(numbers)

    def fire(self, names: Set[str], subject: Subject) -> FaultOrder | None:
        """The fault that has to happen to this now, one of `names`; it is counted and logged."""
        with self._lock:
            for order in self.orders.values():
                if order.name in names and order.fits(subject) and order.takes():
                    fired(order, subject)
                    return order
        return None

    def standing(self, names: Set[str], subject: Subject) -> list[FaultOrder]:
        """The faults that hold for this, of those that go on until they are lifted."""
        with self._lock:
            return [each for each in self.orders.values() if each.name in names and each.fits(subject)]

    def _names_changed(self) -> None:
        self.names = frozenset(order.name for order in self.orders.values())


def fired(order: FaultOrder, subject: Subject) -> None:
    """Say in the log that a fault happens, and that a test has ordered it."""
    first = {name: value[0] if isinstance(value, tuple) else value for name, value in subject.items() if value}
    seen = ", ".join(f"{name} {value}" for name, value in first.items() if value)
    log.warning("fault %s by order %d of a test: %s", order.name, order.number, seen or FAULTS[order.name].does)


def _nothing(order: FaultOrder) -> None:
    """Before the broker is there, nothing can be ordered."""


def _read(number: int, name: str, arguments: RequestArguments, given: Mapping[str, object]) -> FaultOrder:
    fault = FAULTS[name]
    known = (*fault.parameters, *fault.scope, *(() if name in STANDING else COUNTING))
    for argument in given:
        if argument != "fault" and argument not in known:
            raise invalid(f"fault {name} takes no argument {argument}; known: {', '.join(known)}")
    parameters = {key: _parameter(key, parameter, arguments) for key, parameter in fault.parameters.items()}
    scope = {key: _scope(key, arguments) for key in fault.scope if arguments.given(key)}
    at_once = parameters.get("on") == NOW  # to all that it fits, unless the order says how many
    times = int(arguments.number("times", TIMES_MAX)) if arguments.given("times") else None if at_once else fault.times
    counting = {
        "times": times,
        "skip": int(arguments.number("skip", TIMES_MAX)) if arguments.given("skip") else 0,
        "chance": arguments.number("chance", 1) if arguments.given("chance") else 1.0,
        "seed": int(arguments.number("seed")) if arguments.given("seed") else number,
    }
    return FaultOrder(number, name, parameters, scope, counting)


def _scope(name: str, arguments: RequestArguments) -> str | int:
    return int(arguments.number(name, 65_535)) if name == "channel" else arguments.text(name)


def _parameter(name: str, parameter: Parameter, arguments: RequestArguments) -> float | str:
    if not arguments.given(name):
        if parameter.default is None:
            raise invalid(f"argument {name} is missing: {parameter.meaning}")
        return parameter.default
    if parameter.highest:
        value = arguments.number(name, parameter.highest)
        if parameter.codes and value not in parameter.codes:
            raise invalid(f"argument {name}: expected one of {', '.join(map(str, sorted(parameter.codes)))}")
        return value
    text = arguments.text(name)
    if parameter.choices and text not in parameter.choices:
        shown = ", ".join(parameter.choices[:12]) + (", ..." if len(parameter.choices) > 12 else "")
        raise invalid(f"argument {name}: expected one of {shown}")
    return text
