"""Confirms of others while a queue with a million messages is purged, and while one is deleted."""

from __future__ import annotations

import threading
import time

from bench.load import generator
from bench.load.generator import Figures, Load
from bench.load.measured_broker import Target, Wanted, chosen, report
from bench.rows.deep_queue import MESSAGES, fill
from broker.wire import methods
from broker.wire.method import Method
from harness.process_figures import cpu_seconds

RATE = 1000
SECONDS = 3.0
WARM_SECONDS = 1.0


def purges(wanted: Wanted) -> None:
    """Confirm latencies of 1,000 messages a second on another queue: undisturbed, during a purge, during a deletion."""
    messages = wanted.sized(MESSAGES)
    with chosen(wanted) as target:
        client = generator.connect(target)
        generator.declare_fresh(client, "bench.others")
        report("undisturbed", **_others(target, wanted).figures())
        for name, method in (
            ("purge", methods.QueuePurge("bench.victim", False)),
            ("delete", methods.QueueDelete("bench.victim", False, False, False)),
        ):
            fill(target, "bench.victim", messages)
            report(f"{name} of {messages:,}", **_disturbed(target, wanted, method))
        generator.delete(client, "bench.others", "bench.victim")
        client.close()


def _others(target: Target, wanted: Wanted) -> Load:
    warm, seconds = wanted.seconds(WARM_SECONDS), wanted.seconds(SECONDS)
    return Load(target, label="others", key="bench.others", queue="bench.others", rate=RATE, warm=warm, seconds=seconds)


def _disturbed(target: Target, wanted: Wanted, method: Method) -> Figures:
    """The latencies of others, who begin before the method is sent and end well after it."""
    client, load = generator.connect(target), _others(target, wanted)
    threading.Event().wait(wanted.seconds(WARM_SECONDS) + 0.3)
    cpu, started = cpu_seconds(target.pid), time.monotonic()
    client.ask(method)
    answered = time.monotonic() - started
    found = load.figures()
    client.close()
    used = cpu_seconds(target.pid) - cpu
    return {"answered_ms": round(answered * 1e3, 2), "broker_cpu_s_afterwards": round(used, 2), **found}
