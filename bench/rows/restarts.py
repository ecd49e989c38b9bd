"""Starts: after a kill -9 with a backlog, on an empty directory, and what an idle broker costs."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.load import generator
from bench.load.measured_broker import (
    Target,
    Wanted,
    environment,
    median,
    mib,
    own_broker,
    report,
    target_of,
)
from bench.rows.deep_queue import fill
from broker.wire import methods
from harness.brokers.broker_process import BrokerProcess
from harness.process_figures import cpu_seconds, own_memory, resident_memory
from harness.project import ROOT

RESTARTS = 3
EMPTY_STARTS = 10
IDLE_SECONDS = 30
TOP_MODULES = 12


def restarts(wanted: Wanted) -> None:
    """Kill with 1M x 1 KiB, then with 10M x 100 B queued: time to the ready line, then to the first delivery."""
    for messages, size in ((1_000_000, 1024), (10_000_000, 100)):
        with own_broker() as broker:
            count = wanted.sized(messages)
            fill(target_of(broker), "bench.restart", count, size)
            starts, deliveries = [], []
            for _ in range(RESTARTS if wanted.part >= 0.1 else 1):
                broker.kill()
                starts.append(seconds_to_ready(broker))
                deliveries.append(_seconds_to_first_delivery(target_of(broker)))
            report(
                f"restart with {count:,} x {size} B",
                ready_s=median(starts),
                ready_s_worst=max(starts),
                first_delivery_ms=round(median(deliveries) * 1e3, 2),
                first_delivery_ms_worst=round(max(deliveries) * 1e3, 2),
                said_by_the_broker=_said(broker),
                rss_anon_mib=mib(own_memory(broker.pid)),
            )


def seconds_to_ready(broker: BrokerProcess) -> float:
    """Start it; from making the process to its ready line."""
    started = time.monotonic()
    broker.start()
    return round(time.monotonic() - started, 3)


def _said(broker: BrokerProcess) -> str:
    found = re.search(r"start=\S+", broker.ready_line)
    return found[0] if found else ""


def _seconds_to_first_delivery(target: Target) -> float:
    client = generator.connect(target)
    client.ask(methods.BasicQos(0, 100, False))
    started = time.monotonic()
    client.ask(methods.BasicConsume("bench.restart", "c", False, False, False, False, {}))
    client.expect_message(methods.BasicDeliver)
    elapsed = time.monotonic() - started
    client.close()
    return elapsed


def starts(wanted: Wanted) -> None:
    """Ten starts on empty directories, what importing costs, and thirty seconds of doing nothing."""
    _empty_starts(max(1, round(EMPTY_STARTS * min(1.0, wanted.part))))
    _imports()
    _idle(max(0.5, wanted.seconds(IDLE_SECONDS)))


def _empty_starts(count: int) -> None:
    seconds = []
    for number in range(count + 1):
        with tempfile.TemporaryDirectory(prefix="leveret-bench-") as directory:
            data = Path(directory) / "data"
            broker = BrokerProcess(
                data, environment=environment(), own_group=True, loaded_anew=True, check_invariants=False
            )
            taken = seconds_to_ready(broker)
            broker.kill()
        if number:  # the first one warms the page cache
            seconds.append(taken)
    report("empty start", median_s=median(seconds), worst_s=max(seconds), starts=len(seconds))


def _imports() -> None:
    """Milliseconds of `python -X importtime`: in all, per distribution, and the modules that cost most themselves."""
    command = [sys.executable, "-X", "importtime", "-c", "import broker.server.serve"]
    for _ in range(2):  # the second time everything is compiled and in the page cache
        text = subprocess.run(
            command, cwd=ROOT, env=environment(), stderr=subprocess.PIPE, text=True, check=True
        ).stderr
    own = {name.strip(): int(cost) / 1000 for cost, name in re.findall(r"import time:\s+(\d+) \|\s+\d+ \|(.+)", text)}
    packages: dict[str, float] = {}
    for name, cost in own.items():
        package = name.partition(".")[0]
        packages[package] = packages.get(package, 0.0) + cost
    report(
        "imports",
        total_ms=round(sum(own.values()), 1),
        modules=len(own),
        packages_ms=_most(packages),
        modules_ms=_most(own),
    )


def _most(costs: dict[str, float]) -> dict[str, float]:
    most = sorted(costs, key=costs.__getitem__, reverse=True)[:TOP_MODULES]
    return {name: round(costs[name], 1) for name in most}


def _idle(seconds: float) -> None:
    with own_broker() as broker:
        time.sleep(1)  # whatever a start leaves to be done
        before, switches = cpu_seconds(broker.pid), _wakeups(broker.pid)
        time.sleep(seconds)
        used = cpu_seconds(broker.pid) - before
        report(
            "idle",
            seconds=seconds,
            rss_mib=mib(resident_memory(broker.pid)),
            rss_anon_mib=mib(own_memory(broker.pid)),
            cpu_percent=round(used / seconds * 100, 3),
            wakeups_per_s=round((_wakeups(broker.pid) - switches) / seconds, 1),
        )


def _wakeups(pid: int) -> int:
    """Return how often the threads of a process have gone to sleep."""
    texts = [(thread / "status").read_text() for thread in Path(f"/proc/{pid}/task").iterdir()]
    return sum(int(line.split()[1]) for text in texts for line in text.splitlines() if line.startswith("voluntary"))
