"""Durable declarations: how many syncs each costs, how clients share them, and ten thousand queues under policies."""

from __future__ import annotations

import selectors
import tempfile
import time
from pathlib import Path

from bench.load import generator
from bench.load.measured_broker import Target, Wanted, median, mib, own_broker, report, target_of
from bench.rows.restarts import seconds_to_ready
from broker.wire import frames, methods
from harness.brokers.broker_process import BrokerProcess
from harness.clients.wire_client import Client
from harness.process_figures import cpu_seconds, own_memory

QUEUES = 10_000
ALONE = 1_000
CLIENTS = 16
RESTARTS = 3
ORDINARY = [rf"^bench\.alone\.{number}[0-9]+$" for number in range(100)]
WORST = ["(.|..)+[!?]"] * 10
"""Given up on each of the names."""


def declares(wanted: Wanted) -> None:
    """One client, then sixteen, each waiting for every answer; then restarts with all that was declared, and with
    policies that compare each name."""
    if wanted.target is not None:
        _both(wanted, wanted.target, None)
        return
    syncs = generator.compiled("syncs.c", "-shared", "-fPIC", "-ldl")
    with tempfile.NamedTemporaryFile(prefix="leveret-syncs-") as counter:
        counter.write(bytes(8))
        counter.flush()
        with own_broker(LD_PRELOAD=str(syncs), SYNCS_FILE=counter.name) as broker:
            _both(wanted, target_of(broker), Path(counter.name))
            restarts = RESTARTS if wanted.part >= 0.1 else 1
            _restart(broker, "restart with these queues", restarts)
            _set_policies(broker, "ordinary", ORDINARY, restarts)
            _set_policies(broker, "worst", WORST, restarts)


def _both(wanted: Wanted, target: Target, counter: Path | None) -> None:
    alone = _declare(target, 1, wanted.sized(ALONE), "alone", counter)
    together = _declare(target, CLIENTS, wanted.sized(QUEUES - ALONE), "together", counter)
    report("16 clients declare", of_one_client=round(together / alone, 2))


def _declare(target: Target, count: int, queues: int, prefix: str, counter: Path | None) -> float:
    """Declarations per second of clients that each wait for an answer before they ask for the next queue."""
    clients = [generator.connect(target) for _ in range(count)]
    syncs, cpu, started = _count(counter), cpu_seconds(target.pid), time.monotonic()
    done = _take_turns(clients, [f"bench.{prefix}.{number}" for number in range(queues)])
    elapsed = time.monotonic() - started
    rate = done / elapsed
    report(
        f"{count} clients declare durable queues",
        queues=done,
        per_s=round(rate),
        syncs_each=None if counter is None else round((_count(counter) - syncs) / done, 3),
        cpu_us_each=round((cpu_seconds(target.pid) - cpu) / done * 1e6),
    )
    for client in clients:
        client.close()
    return rate


def _take_turns(clients: list[Client], names: list[str]) -> int:
    selector = selectors.DefaultSelector()
    for client in clients:
        selector.register(client.socket, selectors.EVENT_READ, client)
    asked = [frames.method_frame(1, methods.QueueDeclare(name, False, True, False, False, False, {})) for name in names]
    done, waiting = 0, min(len(clients), len(asked))
    for client in clients[:waiting]:
        client.send_raw(asked.pop())
    while waiting:
        for key, _ in selector.select():
            key.data.expect(methods.QueueDeclareOk)
            done += 1
            if asked:
                key.data.send_raw(asked.pop())
            else:
                waiting -= 1
    return done


def _count(counter: Path | None) -> int:
    return 0 if counter is None else int.from_bytes(counter.read_bytes(), "little")


def _set_policies(broker: BrokerProcess, kind: str, patterns: list[str], restarts: int) -> None:
    """Policies beside those that are there, and restarts with them."""
    started, cpu = time.monotonic(), cpu_seconds(broker.pid)
    for number, pattern in enumerate(patterns):
        policy = {"pattern": pattern, "apply_to": "queues", "priority": number, "definition": {"max-length": 1_000_000}}
        broker.tell("set_policy", vhost="/", name=f"{kind} {number}", **policy)
    report(
        f"{len(patterns)} {kind} policies over these queues",
        ms_each=round((time.monotonic() - started) / len(patterns) * 1e3),
        cpu_ms_each=round((cpu_seconds(broker.pid) - cpu) / len(patterns) * 1e3),
    )
    _restart(broker, f"restart with the {kind} policies, too", restarts)


def _restart(broker: BrokerProcess, row: str, times: int) -> None:
    seconds = []
    for _ in range(times):
        broker.kill()
        seconds.append(seconds_to_ready(broker))
    report(
        row,
        ready_s=median(seconds),
        ready_s_worst=max(seconds),
        rss_anon_mib=mib(own_memory(broker.pid)),
    )
