"""Rate of the event log by HTTP, and confirms of others meanwhile."""

from __future__ import annotations

import socket
import ssl
import tempfile
import threading
import time
from pathlib import Path

from bench.load import generator
from bench.load.generator import Load
from bench.load.measured_broker import MIB, Target, Wanted, environment, report, target_of
from harness.brokers.certificate_authority import Authority
from harness.brokers.http_broker import request, web_address, web_broker, write_segments

RATE = 1000
SECONDS = 4.0
SEGMENT_BYTES = 64 * MIB
SEGMENT = "/api/events/node-00000001-0000000000000001-0000000000000001.events"
READERS = (1, 4)


def downloads(wanted: Wanted) -> None:
    """MiB a second of one reader and of four, and confirm latencies of 1,000 messages a second beside them."""
    with tempfile.TemporaryDirectory(prefix="leveret-bench-") as name:
        directory, authority = Path(name), Authority(Path(name))
        write_segments(directory / "events", "node", 1, 1, filling=_noise(wanted.sized(SEGMENT_BYTES)))
        broker = web_broker(directory, tls=authority.config(listen=()))
        broker.environment = environment()
        broker.start()
        try:
            target, seconds = target_of(broker), wanted.seconds(SECONDS)
            client = generator.connect(target)
            generator.declare_fresh(client, "bench.others")
            report("undisturbed", **_others(target, seconds).figures())
            for scheme, security in (("http", None), ("https", authority.client())):
                for readers in READERS:
                    with _Readers(web_address(broker, scheme), readers, security) as reading:
                        began = time.monotonic()
                        figures = _others(target, seconds).figures()
                        rate = reading.bytes / (time.monotonic() - began) / MIB
                    report(f"{readers} by {scheme}", mib_per_s=round(rate, 1), **figures)
            client.close()
        finally:
            broker.kill()


def _others(target: Target, seconds: float) -> Load:
    return Load(target, label="others", key="bench.others", queue="bench.others", rate=RATE, seconds=seconds)


class _Readers:
    """Threads that download a segment again and again; `bytes` is what they have of it together."""

    def __init__(self, address: tuple[str, int], readers: int, security: ssl.SSLContext | None) -> None:
        self.bytes = 0
        self._address = address
        self._security = security
        self._over = False
        self._threads = [threading.Thread(target=self._read, daemon=True) for _ in range(readers)]

    def __enter__(self) -> _Readers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        for thread in self._threads:
            thread.join()

    def _read(self) -> None:
        sock = socket.create_connection(self._address)
        if self._security is not None:
            sock = self._security.wrap_socket(sock, server_hostname="localhost")
        with sock:
            while not self._over:
                sock.sendall(request(SEGMENT))
                self._receive(sock, bytearray(MIB))

    def _receive(self, sock: socket.socket, buffer: bytearray) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += sock.recv(4096)
        start, _, content = head.partition(b"\r\n\r\n")
        left = int(start.lower().split(b"content-length: ")[1].split(b"\r\n")[0]) - len(content)
        while left and not self._over:
            size = sock.recv_into(buffer)
            assert size, "the broker has closed the connection"
            left -= size
            self.bytes += size


def _noise(size: int) -> bytes:
    """Bytes that do not compress."""
    with Path("/dev/urandom").open("rb") as source:
        return source.read(size)
