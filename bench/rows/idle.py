"""Five thousand connections that do nothing but keep their heartbeats."""

from __future__ import annotations

import resource
import socket
import time

from bench.load import loadgen
from bench.load.loadgen import Link
from bench.load.measured_broker import Target, Wanted, chosen, mib, own_memory, report
from broker.wire import frames, methods

CONNECTIONS = 5000
HEARTBEAT_SECONDS = 60
WATCHED_SECONDS = 60
HEARTBEAT = b"\x08\x00\x00\x00\x00\x00\x00\xce"


def idle_connections(wanted: Wanted) -> None:
    """Memory for each connection with one channel, and the cores that all of them use over a minute."""
    count = wanted.sized(CONNECTIONS)
    allow_open_files()
    with chosen(wanted) as target:
        before, cpu, started = own_memory(target.pid), loadgen.cpu_seconds(target.pid), time.monotonic()
        links = [connect(target) for _ in range(count)]
        connecting = time.monotonic() - started
        connecting_cpu = loadgen.cpu_seconds(target.pid) - cpu
        time.sleep(1)
        after = own_memory(target.pid)
        cores, alive = _watch(target, links, max(2.0, wanted.seconds(WATCHED_SECONDS)))
        report(
            f"{count:,} idle connections",
            kib_each=round((after - before) / count / 1024, 1),
            kib_each_after_a_minute=round((own_memory(target.pid) - before) / count / 1024, 1),
            rss_anon_mib=mib(own_memory(target.pid)),
            cores=round(cores, 3),
            alive=alive,
            connects_per_s=round(count / connecting),
            cpu_us_per_connect=round(connecting_cpu / count * 1e6),
        )
        for link in links:
            link.sock.close()


def allow_open_files() -> None:
    """As many open files as the system lets this process have."""
    highest = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest, highest))


def connect(target: Target) -> Link:
    """A connection through the whole handshake, with one channel and a heartbeat."""
    link = loadgen.Link(socket.create_connection(target.address), "")
    link.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link.sock.sendall(frames.PROTOCOL_HEADER)
    loadgen.expect(link, methods.ConnectionStart)
    loadgen.tell(link, methods.ConnectionStartOk({}, "PLAIN", b"\0guest\0guest", "en_US"), channel=0)
    loadgen.expect(link, methods.ConnectionTune)
    loadgen.tell(link, methods.ConnectionTuneOk(2047, loadgen.FRAME_MAX, HEARTBEAT_SECONDS), channel=0)
    loadgen.tell(link, methods.ConnectionOpen("/"), channel=0)
    loadgen.expect(link, methods.ConnectionOpenOk)
    loadgen.tell(link, methods.ChannelOpen())
    loadgen.expect(link, methods.ChannelOpenOk)
    return link


def _watch(target: Target, links: list[Link], seconds: float) -> tuple[float, int]:
    """Each connection beats every half of its heartbeat, evenly spread. Cores used, and how many are still there."""
    cpu, started = loadgen.cpu_seconds(target.pid), time.monotonic()
    beaten = 0
    while (elapsed := time.monotonic() - started) < seconds:
        due = int(elapsed / (HEARTBEAT_SECONDS / 2) * len(links))
        for number in range(beaten, due):
            links[number % len(links)].sock.sendall(HEARTBEAT)
        beaten = due
        time.sleep(0.02)
    cores = (loadgen.cpu_seconds(target.pid) - cpu) / (time.monotonic() - started)
    return cores, sum(map(is_open, links))


def is_open(link: Link) -> bool:
    """The broker has not closed it."""
    try:
        return link.sock.recv(1 << 12, socket.MSG_DONTWAIT) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False
