"""Ten thousand queues by HTTP: how long lists of them take, and what confirms of others take meanwhile."""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.load import generator
from bench.load.generator import Figures, Load
from bench.load.measured_broker import Target, Wanted, environment, median, report, target_of
from broker.wire import frames, methods
from harness.brokers.http_broker import Caller, web_address, web_broker
from harness.clients.wire_client import Address
from harness.process_figures import cpu_seconds

QUEUES = 10_000
RATE = 1000
SECONDS = 5.0
ASKED = 20
PAGE = "page=1&page_size=100"
LISTS = {
    "a page": f"/api/queues?{PAGE}",
    "a page of names": f"/api/queues?{PAGE}&columns=name,messages",
    "the last page": "/api/queues?page={last}&page_size=100",
    "a page by messages": f"/api/queues?{PAGE}&sort=messages&sort_reverse=true",
    "a page by publishes": f"/api/queues?{PAGE}&sort=message_stats.publish&sort_reverse=true",
    "a page of a pattern": f"/api/queues?{PAGE}&name=7%24&use_regex=true",
    "all": "/api/queues",
    "all, totals alone": "/api/queues?disable_stats=true&enable_queue_totals=true",
    "all bindings": "/api/bindings",
}
DISTURBING = ("a page", "all")
"""Lists that are asked for over and over while others publish."""


def object_lists(wanted: Wanted) -> None:
    """Milliseconds of each list by itself, then confirms of 1,000 messages a second beside two of them."""
    queues = wanted.sized(QUEUES)
    with tempfile.TemporaryDirectory(prefix="leveret-bench-") as name:
        broker = web_broker(Path(name))
        broker.environment, broker.check_invariants = environment(), False
        broker.start()
        try:
            target, web = target_of(broker), web_address(broker)
            _declare(target, queues)
            lists = {what: path.format(last=max(1, queues // 100)) for what, path in LISTS.items()}
            for what, path in lists.items():
                _time(target, web, what, path)
            _disturb(target, web, {what: lists[what] for what in DISTURBING}, wanted.seconds(SECONDS))
        finally:
            broker.kill()


def _declare(target: Target, queues: int) -> None:
    client = generator.connect(target)
    asked = [
        frames.method_frame(1, methods.QueueDeclare(f"bench.{number}", False, True, False, False, False, {}))
        for number in range(queues)
    ]
    for start in range(0, queues, 1000):
        client.send_raw(b"".join(asked[start : start + 1000]))
        for _ in asked[start : start + 1000]:
            client.expect(methods.QueueDeclareOk)
    client.close()


def _time(target: Target, web: Address, what: str, path: str) -> None:
    caller, took, cpu = Caller(web), [], cpu_seconds(target.pid)
    for _ in range(ASKED):
        began = time.monotonic()
        caller.request(path)
        reply = caller.hear()
        took.append((time.monotonic() - began) * 1000)
        assert reply.status == 200, reply
    caller.close()
    cpu_ms = (cpu_seconds(target.pid) - cpu) / ASKED * 1000
    found = json.loads(reply.body)
    things = found["item_count"] if isinstance(found, dict) else len(found)
    size = round(len(reply.body) / 1024)
    report(what, ms=median(took, 1), ms_longest=round(max(took), 1), cpu_ms=round(cpu_ms, 1), things=things, kib=size)


def _disturb(target: Target, web: Address, lists: dict[str, str], seconds: float) -> None:
    client = generator.connect(target)
    generator.declare_fresh(client, "bench.others")
    alone = _others(target, seconds)
    report("confirms, undisturbed", **alone)
    for what, path in lists.items():
        with _asking(web, path) as answers:
            beside = _others(target, seconds)
        times = round(beside["confirm_ms"]["p99"] / max(0.001, alone["confirm_ms"]["p99"]), 2)
        report(
            f"confirms beside {what}", lists_per_s=round(len(answers) / seconds, 1), p99_of_undisturbed=times, **beside
        )
    client.close()


def _others(target: Target, seconds: float) -> Figures:
    options = {"label": "others", "key": "bench.others", "queue": "bench.others", "rate": RATE}
    return Load(target, **options, seconds=seconds).figures()


@contextmanager
def _asking(web: Address, path: str) -> Iterator[list[int]]:
    """One client that asks for a list as soon as it has the last one; the statuses of its answers."""
    answers: list[int] = []
    over = threading.Event()

    def ask() -> None:
        caller = Caller(web)
        while not over.is_set():
            caller.request(path)
            answers.append(caller.hear().status)
        caller.close()

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    try:
        yield answers
    finally:
        over.set()
        thread.join()
