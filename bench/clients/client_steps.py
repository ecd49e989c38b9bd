"""Client libraries with their defaults: milliseconds of each step that an application or its tests wait for.

The brokers take turns for each client, so drifts of the machine fall on all.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import msgspec

from bench.clients.client_programs import Missing, Program, programs
from bench.load.measured_broker import Wanted, own_broker, report
from harness.project import ROOT

SESSIONS = 10
TIMES = 10
"""Occurrences of a step in each session, but for connect, channel, cancel and close."""
SECONDS = 60
OURS = "leveret"

Steps = dict[str, list[float]]


class Waits(msgspec.Struct, frozen=True):
    """Medians in milliseconds of one client, by broker and step."""

    client: str
    version: str
    medians: dict[str, dict[str, float]]


def clients(wanted: Wanted) -> None:
    """Run every client's program, and report medians in milliseconds."""
    with ExitStack() as stack:
        target = wanted.target or stack.enter_context(own_broker())
        brokers = {OURS: uri_of(target.address)}
        for found in waits(brokers, max(1, int(SESSIONS * wanted.part))):
            if isinstance(found, Waits):
                steps = {f"{step}_ms": median for step, median in found.medians[OURS].items()}
                report("clients", client=found.client, version=found.version, **steps)
            else:
                report("clients", left_out=found)


def uri_of(address: tuple[str, int]) -> str:
    """Return the URI of a broker's default virtual host, for its default user."""
    host, port = address
    return f"amqp://guest:guest@{host}:{port}/%2F"


def waits(
    brokers: Mapping[str, str], sessions: int, rounds: int = 1, only: Collection[str] = ()
) -> Iterator[Waits | str]:
    """Yield the medians of each client (`only` those named, if any) on brokers by URI, or why a client is left out."""
    with tempfile.TemporaryDirectory(prefix="leveret-bench-") as directory:
        for client, program in programs(Path(directory)).items():
            if only and client not in only:
                continue
            if isinstance(program, Missing):
                yield f"{client}: {program}"
                continue
            found = _in_turn(program, brokers, sessions, rounds)
            yield Waits(client, program.version, {broker: _medians(steps) for broker, steps in found.items()})


def _in_turn(program: Program, brokers: Mapping[str, str], sessions: int, rounds: int) -> dict[str, Steps]:
    """Return what the client took on each broker, all rounds together."""
    found: dict[str, Steps] = {broker: defaultdict(list) for broker in brokers}
    for number in range(rounds):
        for broker, uri in list(brokers.items())[:: -1 if number % 2 else 1]:
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
    return {step: round(statistics.median(times), 2) for step, times in steps.items()}
