"""Every mistake by its name, which runner must find it, and how a process gets one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from broker.environment_settings import CHECK_INVARIANTS
from harness.project import ROOT
from tests.planted import (
    alarm_mistakes,
    client_mistakes,
    confirm_mistakes,
    definition_mistakes,
    delivery_mistakes,
    disk_mistakes,
    limit_mistakes,
    order_mistakes,
    routing_mistakes,
    settlement_mistakes,
    transfer_mistakes,
)
from tests.planted.mistake import Mistake, Runner
from tests.planted.shipped import ship_mistakes
from tests.planted.stopped import missing_file_mistakes, operator_mistakes, restore_mistakes

MODULES = (
    confirm_mistakes,
    settlement_mistakes,
    order_mistakes,
    disk_mistakes,
    definition_mistakes,
    alarm_mistakes,
    client_mistakes,
    transfer_mistakes,
    delivery_mistakes,
    limit_mistakes,
    operator_mistakes,
    missing_file_mistakes,
    restore_mistakes,
    routing_mistakes,
    ship_mistakes,
)
CATALOGUE: dict[str, Mistake] = {
    each.name: each for module in MODULES for each in vars(module).values() if isinstance(each, Mistake)
}

R = TypeVar("R", bound=Runner)

HERE = Path(__file__).parent


def found_by(kind: type[R]) -> list[tuple[str, R]]:
    """The mistakes that a kind of runner must find, by name, and how: the parameters of that runner's test."""
    return [
        (name, runner) for name, mistake in CATALOGUE.items() for runner in mistake.found_by if isinstance(runner, kind)
    ]


def plant_here(name: str) -> None:
    """Plant a mistake for the life of this process. Raises KeyError for one that is not known."""

    def replace(owner: object, attribute: str, value: object) -> None:
        assert hasattr(owner, attribute), f"{name}: {owner} has no {attribute}"
        setattr(owner, attribute, value)

    CATALOGUE[name].plant(replace)


def with_mistake(name: str, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """An environment in which Python plants a mistake at its start. Raises KeyError for one that is not known.

    The broker's own checks are off: what is tried is whether tests see from outside what is wrong. Skips the test on a
    compiled core, whose code nothing can be put in the place of.
    """
    import pytest  # not where a process plants one

    from broker.server.start.start_line import CORE

    if CORE == "compiled":
        pytest.skip("for the pure core: a mistake is planted")
    assert CATALOGUE[name]
    return {**_with_ours_first(environment), "PLANTED": name, CHECK_INVARIANTS: ""}


def with_jumps(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """An environment in which the wall clock jumps on signals: see `jumps.py`."""
    return {**_with_ours_first(environment), "JUMPING": "1"}


def with_eager_work(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """An environment in which each start compacts the message store, however small it is, and each look at the disk
    makes holes of its free pages, however few they are. Lone changes of definitions are written by the event loop, and
    SQLite's log is moved into its file every few changes.
    """
    return {**_with_ours_first(environment), "EAGER": "1"}


def with_marks(path: Path, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """An environment in which a broker that is shipped marks each change in a file: see `shipped_states/marks.py`."""
    return {**_with_ours_first(environment), "MARKED": os.fspath(path)}


def _with_ours_first(environment: Mapping[str, str]) -> dict[str, str]:
    paths = [str(HERE), str(ROOT), *filter(None, [environment.get("PYTHONPATH")])]
    return {**environment, "PYTHONPATH": os.pathsep.join(paths)}
