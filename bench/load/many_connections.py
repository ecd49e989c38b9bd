"""Many connections in a process of their own: `python -m bench.load.many_connections HOST:PORT idle|churn NUMBER`.

`idle` opens a number, prints a line, and keeps their heartbeats; `churn` opens and drops them each second. Both end
with standard input, `idle` printing how many are still open, `churn` how many there were.
"""

from __future__ import annotations

import os
import select
import sys
import threading
import time

from bench.load.measured_broker import Target
from bench.rows.idle import HEARTBEAT_SECONDS, connect, is_open
from broker.wire.frames import HEARTBEAT
from harness.process_figures import allow_open_files

WORKERS = 8
"""Threads that connect at the same time: most of a handshake is waiting."""


def main() -> None:
    """Do what the command line says until standard input ends."""
    address, kind, number = sys.argv[1:]
    host, _, port = address.rpartition(":")
    allow_open_files()
    target = Target((host, int(port)), os.getpid())
    (_idle if kind == "idle" else _churn)(target, int(number))


def _idle(target: Target, count: int) -> None:
    clients = [connect(target) for _ in range(count)]
    print("begun", flush=True)
    beaten, started = 0, time.monotonic()
    while not _ended(0.05):
        due = int((time.monotonic() - started) / (HEARTBEAT_SECONDS / 2) * count)
        for number in range(beaten, due):
            clients[number % count].send_raw(HEARTBEAT)
        beaten = due
    print(sum(map(is_open, clients)), flush=True)


def _churn(target: Target, rate: int) -> None:
    stopped, made = threading.Event(), [0] * WORKERS

    def work(place: int) -> None:
        started = time.monotonic()
        while not stopped.is_set():
            connect(target).close()
            made[place] += 1
            stopped.wait(max(0.0, started + made[place] * WORKERS / rate - time.monotonic()))

    threads = [threading.Thread(target=work, args=(place,)) for place in range(WORKERS)]
    for thread in threads:
        thread.start()
    print("begun", flush=True)
    while not _ended(0.5):
        pass
    stopped.set()
    for thread in threads:
        thread.join()
    print(sum(made), flush=True)


def _ended(seconds: float) -> bool:
    return bool(select.select([sys.stdin], [], [], seconds)[0])


if __name__ == "__main__":
    main()
