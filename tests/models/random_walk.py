"""Random walks: many steps in an order that follows from a seed, some of them oftener than others, as in life."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

Step = tuple[int, Callable[[], object]]
"""Relative frequency of a step, and the step."""


def take_steps(chance: Random, steps: Sequence[Step], count: int, check: Callable[[], None]) -> None:
    """Take `count` of these steps, and check after each. A failure says at which step it was."""
    weights, acts = zip(*steps, strict=True)
    for number, act in enumerate(chance.choices(acts, weights, k=count)):
        try:
            act()
            check()
        except BaseException as error:
            error.add_note(f"at step {number}")
            raise
