"""The faults that tests have requested: their scope, how often they happen, and whether one is due now."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Set
from fnmatch import fnmatchcase
from itertools import count
from random import Random
from threading import Lock
from typing import Any

from broker.admin.protocol import invalid, not_found
from broker.testing.faults.fault_table import FAULTS, NOW, STANDING, FaultParameter
from broker.testing.request_arguments import RequestArguments

log = logging.getLogger("leveret.testing")

FAULTS_MAX = 1000
COUNTING = ("times", "skip", "chance", "seed")
"""Arguments of all but STANDING faults: number of times, how many to skip first, probability of each, its seed."""
TIMES_MAX = 1_000_000_000

Subject = Mapping[str, str | int | tuple[str, ...] | None]
"""A thing that a fault may happen to: its values by scope; a tuple has several names, each of which may match."""


class RequestedFault:
    """A fault that a test has requested. `left`: how often it still happens; None: until it is lifted."""

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
        """Return whether the fault's scope matches a subject."""
        if self.parameters.get("on", NOW) != subject.get("method", NOW) and "on" in self.parameters:
            return False
        return all(_fits(wanted, subject.get(name)) for name, wanted in self.scope.items())

    def takes(self) -> bool:
        """Count an opportunity, and return whether the fault happens now."""
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
        """Return the request, how often the fault has happened, and how often it still may."""
        asked = {**self.parameters, **self.scope}
        return {"id": self.number, "fault": self.name, **asked, "fired": self.fired, "left": self.left}


def _fits(wanted: str | int, found: str | int | tuple[str, ...] | None) -> bool:
    if isinstance(wanted, int) or isinstance(found, int):
        return str(wanted) == str(found)
    names = found if isinstance(found, tuple) else (found,)
    return any(name is not None and fnmatchcase(name, wanted) for name in names)


class Faults:
    """All requested faults, in the order of their requests."""

    def __init__(self) -> None:
        self.requested: dict[int, RequestedFault] = {}
        self.names: Set[str] = frozenset()
        """Names of the requested faults, for a quick check that there are none of a kind."""
        self._begin: Callable[[RequestedFault], None] = _nothing
        self._end: Callable[[RequestedFault], None] = _nothing
        self._numbers = count(1)
        self._lock = Lock()  # the commit thread asks, too

    def attach(self, begin: Callable[[RequestedFault], None], end: Callable[[RequestedFault], None]) -> None:
        """Call `begin` with each new fault from now on, and `end` with each that is lifted."""
        self._begin, self._end = begin, end

    def request(self, given: Mapping[str, object]) -> RequestedFault:
        """Request a fault. Raises AdministrationError `not_found` for an unknown one, `invalid` for wrong arguments."""
        arguments = RequestArguments(given)
        name = arguments.text("fault")
        if name not in FAULTS:
            raise not_found(f"there is no fault {name}; known: {', '.join(FAULTS)}")
        if len(self.requested) >= FAULTS_MAX:
            self.requested = {number: fault for number, fault in self.requested.items() if fault.left != 0}
        if len(self.requested) >= FAULTS_MAX:
            raise invalid(f"{FAULTS_MAX} faults are requested already: lift some (DELETE /api/testing/faults)")
        fault = _read(next(self._numbers), name, arguments, given)
        self._begin(fault)
        with self._lock:
            self.requested[fault.number] = fault
            self._names_changed()
        return fault

    def lift(self, number: int) -> None:
        """Lift a fault. Raises AdministrationError `not_found`."""
        with self._lock:
            fault = self.requested.pop(number, None)
            self._names_changed()
        if fault is None:
            raise not_found(f"there is no fault with the id {number}")
        self._end(fault)

    def lift_all(self) -> int:
        """Lift all faults; return their number."""
        numbers = list(self.requested)
        for number in numbers:
            self.lift(number)
        return len(numbers)

    def fire(self, names: Set[str], subject: Subject) -> RequestedFault | None:
        """Return the fault, one of `names`, that happens to a subject now, counted and logged; None if none does."""
        with self._lock:
            for fault in self.requested.values():
                if fault.name in names and fault.fits(subject) and fault.takes():
                    fired(fault, subject)
                    return fault
        return None

    def standing(self, names: Set[str], subject: Subject) -> list[RequestedFault]:
        """Return the faults, of `names`, that hold for a subject until they are lifted."""
        with self._lock:
            return [each for each in self.requested.values() if each.name in names and each.fits(subject)]

    def _names_changed(self) -> None:
        self.names = frozenset(fault.name for fault in self.requested.values())


def fired(fault: RequestedFault, subject: Subject) -> None:
    """Log that a fault happens at the request of a test."""
    first = {name: value[0] if isinstance(value, tuple) else value for name, value in subject.items() if value}
    seen = ", ".join(f"{name} {value}" for name, value in first.items() if value)
    log.warning("fault %s by order %d of a test: %s", fault.name, fault.number, seen or FAULTS[fault.name].does)


def _nothing(fault: RequestedFault) -> None:
    """Do nothing: no fault can be requested before `attach`."""


def _read(number: int, name: str, arguments: RequestArguments, given: Mapping[str, object]) -> RequestedFault:
    kind = FAULTS[name]
    known = (*kind.parameters, *kind.scope, *(() if name in STANDING else COUNTING))
    for argument in given:
        if argument != "fault" and argument not in known:
            raise invalid(f"fault {name} takes no argument {argument}; known: {', '.join(known)}")
    parameters = {key: _parameter(key, parameter, arguments) for key, parameter in kind.parameters.items()}
    scope = {key: _scope(key, arguments) for key in kind.scope if arguments.given(key)}
    at_once = parameters.get("on") == NOW  # happens to all that match, unless the request says how many
    times = int(arguments.number("times", TIMES_MAX)) if arguments.given("times") else None if at_once else kind.times
    counting = {
        "times": times,
        "skip": int(arguments.number("skip", TIMES_MAX)) if arguments.given("skip") else 0,
        "chance": arguments.number("chance", 1) if arguments.given("chance") else 1.0,
        "seed": int(arguments.number("seed")) if arguments.given("seed") else number,
    }
    return RequestedFault(number, name, parameters, scope, counting)


def _scope(name: str, arguments: RequestArguments) -> str | int:
    return int(arguments.number(name, 65_535)) if name == "channel" else arguments.text(name)


def _parameter(name: str, parameter: FaultParameter, arguments: RequestArguments) -> float | str:
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
