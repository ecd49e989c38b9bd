"""A step of an operator."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

from tests.durability.operators.broker_lives import Clients
from tests.durability.operators.operated_store import OperatedStore


class Scene(NamedTuple):
    """The object of a step, the clients, and the dice that draw its details."""

    store: OperatedStore
    clients: Clients
    dice: random.Random


def always(_store: OperatedStore) -> bool:
    """A step that may be drawn at any time."""
    return True


class Step(NamedTuple):
    """One thing that an operator does. `weight` is how often it is drawn in comparison, where it `may` be.

    `do` raises BrokenPromiseError for what no operator understands; what else is wrong is seen in the end.
    """

    name: str
    weight: int
    do: Callable[[Scene], None]
    may: Callable[[OperatedStore], bool] = always
