"""Tests run once with each personality of the broker: their results and what the brokers noted, compared at the end.

Registered with the option `--leveret-personalities`, or where `leveret test` asks for the result of each test.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from leveret.testing.rehearsal.rehearsal_runs import Run
from leveret.testing.rehearsal.report_forms import form_of, report
from leveret.testing.rehearsal.report_text import lines
from leveret.testing.rehearsal.run_comparison import Comparison, compare

if TYPE_CHECKING:
    from leveret.testing import Broker

PERSONALITY = "leveret_personality"
"""The fixture by which tests are multiplied."""
RUNS = "leveret_runs"
_PARAMETERS = re.compile(r"\[([^\[\]]*)\]$")


class RehearsedTests:
    """Hooks of a rehearsal. `personalities` is empty where results are only written into a file."""

    def __init__(self, personalities: list[str], results: str, reported: str) -> None:
        """`results`: file for the result of each test; `reported`: file for the report. Empty for none."""
        self.personalities = personalities
        self._results = results
        self._reported = reported
        self._runs = {name: Run(name) for name in personalities}
        self._outcomes: dict[str, str] = {}
        self._seconds: dict[str, float] = {}

    @property
    def watch(self) -> str:
        """The series that brokers watch for."""
        return max(self.personalities, key=lambda name: [int(part) for part in name.split(".")], default="")

    def note(self, personality: str, broker: Broker, *, messages: bool = True, findings: bool = True) -> None:
        """Note what became of `messages` since the reset, and the broker's `findings` since its start."""
        if personality in self._runs and broker.running:
            self._runs[personality].ask(broker, messages=messages, findings=findings)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Multiply the tests that use a broker."""
        if self.personalities and PERSONALITY in metafunc.fixturenames:
            metafunc.parametrize(PERSONALITY, self.personalities, indirect=True, scope="session")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the worst outcome of a test's phases."""
        self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0.0) + report.duration
        said = "error" if report.failed and report.when != "call" else report.outcome
        if said != "passed" or report.nodeid not in self._outcomes:
            self._outcomes[report.nodeid] = said

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over what a worker of pytest-xdist has noted."""
        for values in json.loads(getattr(node, "workeroutput", {}).get(RUNS, "[]")):
            run = self._runs[values["personality"]]
            run.findings += values["findings"]
            run.closures += values["closures"]
            run.messages += Counter({tuple(place): count for place, count in values["messages"]})

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Hand over what a worker has noted, or write results and report."""
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            runs = [{**asdict(run), "messages": list(run.messages.items())} for run in self._runs.values()]
            output[RUNS] = json.dumps(runs)
            return
        if self._results:
            written = "".join(f"{json.dumps(pair)}\n" for pair in self._outcomes.items())
            Path(self._results).write_text(written, encoding="utf-8")
        if self.personalities and self._reported:
            form = form_of(Path(self._reported))
            Path(self._reported).write_text(report(self.comparison(), form), encoding="utf-8")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the report."""
        if self.personalities:
            terminalreporter.section("rehearsal")
            for line in lines(self.comparison()):
                terminalreporter.write_line(line)

    def comparison(self) -> Comparison:
        """Return the comparison of the tests so far."""
        for run in self._runs.values():
            named = dict(self._of(run.personality))
            run.tests = {test: self._outcomes[name] for test, name in named.items()}
            run.seconds = sum(self._seconds[name] for name in named.values())
            run.exit_code = int(any(outcome in ("failed", "error") for outcome in run.tests.values()))
        return compare((), list(self._runs.values()))

    def _of(self, personality: str) -> Iterator[tuple[str, str]]:
        """Yield the names of the tests of a personality, without it and with it."""
        for name in self._outcomes:
            found = _PARAMETERS.search(name)
            parameters = found[1].split("-") if found is not None else []
            if found is not None and personality in parameters:
                parameters.remove(personality)
                rest = f"[{'-'.join(parameters)}]" if parameters else ""
                yield name[: found.start()] + rest, name
