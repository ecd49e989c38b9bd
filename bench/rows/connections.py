"""Ten thousand connections at one time, and a thousand that come and go each second, beside a good client."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench.load.measured_broker import Target, Wanted, chosen, mib, report
from bench.rows.attacks import good_queue
from harness.process_figures import allow_open_files, descriptors, own_memory
from harness.project import ROOT
from harness.waiting import eventually

CONNECTIONS = 10_000
RATE = 1000
PROCESSES = 2
GOOD_SECONDS = 10.0
CHURN_SECONDS = 60.0
LOOKS = 6
FILES = 4
"""Files of its own that the broker may have opened meanwhile."""


def connections(wanted: Wanted) -> None:
    """Connections with a channel and a heartbeat each: memory of each, a good client's confirms, what stays."""
    allow_open_files()
    count = wanted.sized(CONNECTIONS)
    with chosen(wanted) as target, good_queue(target) as good:
        alone = good(wanted.seconds(GOOD_SECONDS))["confirm_ms"]
        before, open_before = own_memory(target.pid), descriptors(target.pid)
        started = time.monotonic()
        with _generators(target, "idle", count // PROCESSES) as printed:
            connecting = time.monotonic() - started
            time.sleep(wanted.seconds(1.0))
            held, opened = own_memory(target.pid), descriptors(target.pid)
            beside = good(wanted.seconds(GOOD_SECONDS))["confirm_ms"]
        eventually(lambda: descriptors(target.pid) <= open_before + FILES, "the connections to be gone", seconds=60)
        time.sleep(wanted.seconds(1.0))
        after = own_memory(target.pid)
        with _generators(target, "idle", count // PROCESSES):
            again = own_memory(target.pid)
        eventually(lambda: descriptors(target.pid) <= open_before, "the connections to be gone", seconds=60)
        time.sleep(wanted.seconds(1.0))
        report(
            f"{opened - open_before:,} connections at once",
            kib_each=round((held - before) / count / 1024, 1),
            alive_at_the_end=sum(printed),
            connects_per_s=round(count / connecting),
            good_alone=alone,
            good_beside=beside,
            mib_before=mib(before),
            mib_highest=mib(held),
            mib_after=mib(after),
            mib_highest_again=mib(again),
            mib_after_again=mib(own_memory(target.pid)),
            descriptors_before=open_before,
            descriptors_after=descriptors(target.pid),
        )


def connection_churn(wanted: Wanted) -> None:
    """A thousand connections a second for a minute, each through the whole handshake: what is held at several looks."""
    allow_open_files()
    with chosen(wanted) as target:
        before, open_before = own_memory(target.pid), descriptors(target.pid)
        looks = []
        with _generators(target, "churn", RATE // PROCESSES) as printed:
            started = time.monotonic()
            for _ in range(LOOKS):
                time.sleep(wanted.seconds(CHURN_SECONDS) / LOOKS)
                looks.append(mib(own_memory(target.pid)))
            seconds = time.monotonic() - started
        eventually(lambda: descriptors(target.pid) <= open_before + FILES, "the connections to be gone", seconds=60)
        report(
            "connections that come and go",
            connects=sum(printed),
            per_s=round(sum(printed) / seconds),
            mib_before=mib(before),
            mib_meanwhile=looks,
            mib_after=mib(own_memory(target.pid)),
            descriptors_before=open_before,
            descriptors_after=descriptors(target.pid),
        )


@contextmanager
def _generators(target: Target, kind: str, number: int) -> Iterator[list[int]]:
    """Processes that do the same; what each has printed at its end is in the list then."""
    host, port = target.address
    command = [sys.executable, "-m", "bench.load.many_connections", f"{host}:{port}", kind, str(number)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    processes = [subprocess.Popen(command, cwd=ROOT, text=True, **pipes) for _ in range(PROCESSES)]
    printed: list[int] = []
    try:
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()
        yield printed
        printed.extend(int(process.communicate()[0]) for process in processes)
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()
