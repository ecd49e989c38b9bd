"""Ten thousand connections that do nothing but keep their heartbeats."""

from __future__ import annotations

import time

from bench.load import loadgen
from bench.load.measured_broker import Target, Wanted, chosen, mib, report
from broker.wire.frames import HEARTBEAT
from harness.clients.wire_client import Client
from harness.process_figures import allow_open_files, cpu_seconds, own_memory

CONNECTIONS = 10_000
HEARTBEAT_SECONDS = 60
SHORT_HEARTBEAT_SECONDS = 10
WATCHED_SECONDS = 60


def idle_connections(wanted: Wanted) -> None:
    """Memory for each connection with one channel, and the cores that all of them use over a minute."""
    for heartbeat in (HEARTBEAT_SECONDS, SHORT_HEARTBEAT_SECONDS):
        _with_heartbeat(wanted, heartbeat)


def _with_heartbeat(wanted: Wanted, heartbeat: int) -> None:
    count = wanted.sized(CONNECTIONS)
    allow_open_files()
    with chosen(wanted) as target:
        before, cpu, started = own_memory(target.pid), cpu_seconds(target.pid), time.monotonic()
        clients = [connect(target, heartbeat) for _ in range(count)]
        connecting = time.monotonic() - started
        connecting_cpu = cpu_seconds(target.pid) - cpu
        time.sleep(wanted.seconds(1.0))
        after = own_memory(target.pid)
        cores, alive = _watch(target, clients, heartbeat, wanted.seconds(WATCHED_SECONDS))
        report(
            f"{count:,} idle connections, heartbeats of {heartbeat} s",
            kib_each=round((after - before) / count / 1024, 1),
            kib_each_after_a_minute=round((own_memory(target.pid) - before) / count / 1024, 1),
            rss_anon_mib=mib(own_memory(target.pid)),
            cores=round(cores, 3),
            alive=alive,
            connects_per_s=round(count / connecting),
            cpu_us_per_connect=round(connecting_cpu / count * 1e6),
        )
        for client in clients:
            client.close()


def connect(target: Target, heartbeat: int = HEARTBEAT_SECONDS) -> Client:
    """A connection through the whole handshake, with one channel and a heartbeat."""
    return loadgen.connect(target.address, heartbeat=heartbeat)


def _watch(target: Target, clients: list[Client], heartbeat: int, seconds: float) -> tuple[float, int]:
    """Each connection beats every half of its heartbeat, evenly spread. Cores used, and how many are still there."""
    cpu, started = cpu_seconds(target.pid), time.monotonic()
    beaten = 0
    while (elapsed := time.monotonic() - started) < seconds:
        due = int(elapsed / (heartbeat / 2) * len(clients))
        for number in range(beaten, due):
            clients[number % len(clients)].send_raw(HEARTBEAT)
        beaten = due
        time.sleep(0.02)
    cores = (cpu_seconds(target.pid) - cpu) / (time.monotonic() - started)
    return cores, sum(map(is_open, clients))


def is_open(client: Client) -> bool:
    """The broker has not closed it."""
    client.socket.setblocking(False)
    try:
        return client.socket.recv(1 << 12) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False
