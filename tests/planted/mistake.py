"""What a planted mistake is."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Mistake(NamedTuple):
    """The number of the promise in docs/durability.md that it breaks, and what plants it in this process."""

    promise: str
    plant: Callable[[], None]
