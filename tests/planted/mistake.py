"""A planted mistake, and the runners that find it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

Patch = Callable[[Any, str, Any], None]
"""Sets an attribute: `setattr` for the life of a process, or pytest's `monkeypatch.setattr` for one test."""

Plant = Callable[[Patch], None]


class Process(NamedTuple):
    """Found by a test of its own, which starts a broker with the mistake. `test` is the test's file."""

    test: str


class Kills(NamedTuple):
    """Found by the loop of kills under real clients. `symptom` is a regular expression of what it says."""

    symptom: str


class BrokerCrashes(NamedTuple):
    """Found among the crash states of a recorded broker. `steps` are those of each client, one number per start.

    With `offsets` one of the clients commits offsets of streams.
    """

    symptom: str = ""
    steps: tuple[int, ...] = (4,)
    offsets: bool = False


class Simulation(NamedTuple):
    """Found by a simulated run of this seed."""

    seed: int


class Model(NamedTuple):
    """Found by random walks of a model: `queue`, `priorities` (the same with them), `quorum`, `delayed retry` (the same
    with it), `limits`, `store` or `free pages`.

    Or where much ends at once: `large messages`, `many copies` of dead letters, `many settlements` by one frame.
    """

    model: str


class Exhaustion(NamedTuple):
    """Found in the short round of this seed, in which a broker runs out of things. `symptom` is as for `Kills`."""

    seed: int
    symptom: str


class Operators(NamedTuple):
    """Found in the round of this seed, in which operators do these steps. `symptom` is as for `Kills`."""

    seed: int
    steps: tuple[str, ...]
    symptom: str


class ShippedStates(NamedTuple):
    """Found among the prefixes of the pieces that a recorded broker has shipped.

    `symptom` is as for `Kills`, `steps` as for `BrokerCrashes`.
    """

    symptom: str
    steps: tuple[int, ...] = (3,)


class Fence(NamedTuple):
    """Found by the orders of two brokers' calls at one place: of `two starts`, or of a start and a `promotion`.

    Or by a place that takes no `base`.
    """

    acts: str


class FencedWorlds(NamedTuple):
    """Found in the world of this seed, in which brokers share a second place. `symptom` is as for `Kills`."""

    seed: int
    symptom: str


Runner = (
    Process | Kills | BrokerCrashes | Simulation | Model | Exhaustion | Operators | ShippedStates | Fence | FencedWorlds
)


class Mistake(NamedTuple):
    """One mistake.

    `breaks` is the number of the promise in docs/durability.md that it breaks, or the rule in words. Every runner in
    `found_by` must find it.
    """

    name: str
    breaks: str
    plant: Plant
    found_by: tuple[Runner, ...]


def mistake(breaks: str, *found_by: Runner) -> Callable[[Plant], Mistake]:
    """Make a function that plants a mistake into one, which is called as the function is."""
    return lambda plant: Mistake(plant.__name__.replace("_", " "), breaks, plant, found_by)
