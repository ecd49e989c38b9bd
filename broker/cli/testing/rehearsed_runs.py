"""Runs of a command, one with each personality, compared."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import click

from broker.cli.testing.command_process import run
from broker.cli.testing.with_broker_command import environment
from broker.entities.arguments.personality import PERSONALITIES
from leveret.testing import Broker
from leveret.testing.rehearsal.rehearsal_runs import Run, variables
from leveret.testing.rehearsal.run_comparison import Comparison, compare

RESULTS = "LEVERET_TEST_RESULTS"
"""Environment variable: the file into which Leveret's plugin of pytest writes the outcome of each test."""


def rehearse(
    command: tuple[str, ...], personalities: tuple[str, ...], more: str, timeout: float | None, log: Path | None
) -> Comparison:
    """Run a command with each personality and compare the runs; `more`: further settings of the brokers."""
    newest = max(personalities, key=list(PERSONALITIES).index)
    runs = list[Run]()
    with tempfile.TemporaryDirectory(prefix="leveret-results-") as directory:
        for personality in personalities:
            click.echo(f"leveret: running with {personality}", err=True)
            results = Path(directory) / personality
            broker = Broker(settings=more, variables=variables(personality, newest))
            runs.append(_run(command, broker, Run(personality), timeout, log, results))
    return compare(command, runs)


def _run(
    command: tuple[str, ...], broker: Broker, this: Run, timeout: float | None, log: Path | None, results: Path
) -> Run:
    with broker:
        began = time.monotonic()
        try:
            received: list[int] = []
            this.exit_code = run(command, {**environment(broker), RESULTS: str(results)}, timeout, received)
            if received:
                sys.exit(128 + received[0])  # there are no further runs
            this.seconds = time.monotonic() - began
            this.ask(broker)
        finally:
            if log is not None:
                file = log.with_name(f"{log.stem}-{this.personality}{log.suffix}")
                file.write_text(broker.log(), encoding="utf-8")
    if results.exists():
        this.tests = dict(map(json.loads, results.read_text(encoding="utf-8").splitlines()))
    return this
