"""Client libraries with their defaults: milliseconds of each step that an application or its tests wait for.

The brokers take turns for each client, so drifts of the machine fall on all. `CLIENTS_BESIDE` names others to measure
beside this checkout's: words `NAME=URI`. `CLIENTS_ONLY` names some of the clients, separated by commas.
`CLIENTS_ROUNDS` repeats everything.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path

from bench.clients.client_programs import Missing, Program, programs
from bench.load.measured_broker import Wanted, own_broker, report
from harness.project import ROOT

SESSIONS = 10
TIMES = 10
"""Occurrences of a step in each session, but for connect, channel, cancel and close."""
SECONDS = 60
OURS = "leveret"

Steps = dict[str, list[float]]


def clients(wanted: Wanted) -> None:
    """Run every client's program on every broker in turn, and report medians in milliseconds."""
    sessions, only = max(1, int(SESSIONS * wanted.part)), os.environ.get("CLIENTS_ONLY", "")
    chosen = set(filter(None, only.split(",")))
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="leveret-bench-")))
        brokers = dict(word.split("=", 1) for word in os.environ.get("CLIENTS_BESIDE", "").split())
        host, port = (wanted.target or stack.enter_context(own_broker())).address
        brokers = {OURS: f"amqp://guest:guest@{host}:{port}/%2F"} | brokers
        for client, program in programs(directory).items():
            if chosen and client not in chosen:
                continue
            if isinstance(program, Missing):
                report("clients", client=client, left_out=str(program))
                continue
            for broker, steps in _in_turn(program, brokers, sessions).items():
                report("clients", client=client, version=program.version, broker=broker, **_medians(steps))


def _in_turn(program: Program, brokers: dict[str, str], sessions: int) -> dict[str, Steps]:
    """Return what the client took on each broker, all rounds together."""
    found: dict[str, Steps] = {broker: defaultdict(list) for broker in brokers}
    for _ in range(int(os.environ.get("CLIENTS_ROUNDS", "1"))):
        for broker, uri in brokers.items():
            for step, times in _run(program, uri, sessions).items():
                found[broker][step] += times
    return found


def _run(program: Program, uri: str, sessions: int) -> Steps:
    command = [*program.command, uri, str(sessions), str(TIMES)]
    out = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **program.environment},
        stdout=subprocess.PIPE,
        text=True,
        timeout=SECONDS,
        check=True,
    ).stdout
    steps: Steps = json.loads(out.splitlines()[-1])
    return steps


def _medians(steps: Steps) -> dict[str, float]:
    return {f"{step}_ms": round(statistics.median(times), 2) for step, times in steps.items()}
