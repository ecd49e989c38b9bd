"""A look whether a server keeps what has a name, which only the server can do."""

from __future__ import annotations

from collections.abc import Callable

from storage.ship.targets.ship_target import TargetError

PROBE = "written-once"
"""The name of an empty object beside the chains, which stays."""


def refuse_overwriting(create: Callable[[str], bool]) -> None:
    """Raise TargetError if an object can be created where one is. `create` returns False if the name is taken."""
    if create(PROBE) and create(PROBE):
        raise TargetError("the server overwrites what is there, although it is told not to: two brokers could own it")
