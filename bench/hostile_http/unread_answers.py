"""Clients that ask for the largest answers there are and read nothing, and one that wants to know what is the case.

They are many, of one address, and ask again on a new connection as soon as theirs is closed. The honest one is of the
same address or of another one; it asks once a second.
"""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from bench.load import generator
from bench.load.measured_broker import MemoryWatch, Wanted, mib, own_broker, report, target_of
from bench.rows.attacks import good_queue
from harness.brokers.http_broker import basic, request, web_address
from harness.clients.shorthand import queue_declare
from harness.process_figures import allow_open_files, own_memory

QUEUES = 2000
SECONDS = 8.0
PAUSE_SECONDS = 1.0
AGAIN_SECONDS, GIVES_UP_SECONDS = 0.1, 30.0
CASES = (
    ("metrics", "/metrics/per-object", 0, "127.0.0.1"),
    ("metrics", "/metrics/per-object", 10, "127.0.0.1"),
    ("metrics", "/metrics/per-object", 60, "127.0.0.1"),
    ("metrics", "/metrics/per-object", 60, "127.0.0.9"),
    ("http", "/api/queues", 0, "127.0.0.1"),
    ("http", "/api/queues", 60, "127.0.0.1"),
    ("http", "/api/queues", 60, "127.0.0.9"),
)
"""Listener, path, number of clients that do not read, and the address of the one who does."""


def unread_answers(wanted: Wanted) -> None:
    """Seconds of an honest answer, confirms of another client, and memory, while others read nothing."""
    allow_open_files()
    for scheme, path, unread, address in CASES if wanted.part >= 0.1 else CASES[1:2]:
        with own_broker(serves_http=True) as broker:
            target = target_of(broker)
            client = generator.connect(target)
            for number in range(wanted.sized(QUEUES)):
                client.send(queue_declare(f"bench.unread.{number}", no_wait=True))
            generator.declare(client, "bench.unread.last")
            where, before = web_address(broker, scheme), own_memory(target.pid)
            with good_queue(target) as good, MemoryWatch(target.pid) as memory, not_reading(where, path, unread):
                honest = Honest(where, path, address)
                found = good(wanted.seconds(SECONDS))
                honest.end()
            report(
                f"{path}, {unread} that do not read it, asked by {address}",
                answers=len(honest.seconds),
                refused=honest.refused,
                longest_s=round(max(honest.seconds, default=0.0), 2),
                confirm_p99=found["confirm_ms"]["p99"],
                confirm_max=found["confirm_ms"]["max"],
                mib_more=round(mib(memory.highest) - mib(before), 1),
            )
            client.close()


class Honest:
    """A thread that asks and reads, again and again, from an address of this machine."""

    def __init__(self, where: tuple[str, int], path: str, address: str) -> None:
        self.seconds: list[float] = []
        self.refused = 0
        self._where, self._path, self._address = where, path, address
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Have the answer that is under way come to its end."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(PAUSE_SECONDS):
            began = time.monotonic()
            while not self._asked() and time.monotonic() - began < GIVES_UP_SECONDS:
                self.refused += 1
                time.sleep(AGAIN_SECONDS)
            self.seconds.append(time.monotonic() - began)

    def _asked(self) -> bool:
        connection = http.client.HTTPConnection(*self._where, timeout=30, source_address=(self._address, 0))
        try:
            connection.request("GET", self._path, headers=basic())
            return connection.getresponse().read() != b""
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


@contextmanager
def not_reading(where: tuple[str, int], path: str, clients: int) -> Iterator[None]:
    """Clients that ask and read nothing."""
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            with socket.socket() as sock, suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                sock.connect(where)
                sock.sendall(request(path))
                while not over.wait(0.2):
                    sock.sendall(b"G")  # notices that the connection is closed

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(clients)]
    for thread in threads:
        thread.start()
    yield
    over.set()
    for thread in threads:
        thread.join()
