"""Contents after a stop in order and after a kill: every case of `cases`, in one broker for each kind of end.

Here is the part that only an example shows. The rules for all messages (order, marks, levels, limits, times to live,
delivery counts, offsets, deletions) are held against brokers that crash by tests/simulation, tests/durability/crash
and tests/durability/kills.
"""

from __future__ import annotations

import inspect

import pytest

from harness.brokers.broker_process import BrokerProcess
from tests.durability.restart.boots import Case, live_through
from tests.durability.restart.cases import definition_cases, message_cases

pytestmark = pytest.mark.slow

CASES: dict[str, Case] = {
    name: case
    for subject in (definition_cases, message_cases)
    for name, case in vars(subject).items()
    if inspect.isgeneratorfunction(case)
}
"""Cases on time come last, so that little of it passes before the first restart."""


@pytest.fixture(scope="module", params=["stop", "kill"])
def failures(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, BaseException]:
    """Errors by case."""
    broker = BrokerProcess(tmp_path_factory.mktemp(request.param) / "data")
    try:
        return live_through(CASES.values(), broker, killed=request.param == "kill")
    finally:
        if broker.running:
            broker.kill()


@pytest.mark.parametrize("case", CASES)
def test_what_a_restart_leaves(failures: dict[str, BaseException], case: str) -> None:
    if case in failures:
        raise failures[case]
