"""Answers callers of HTTP and of the administration socket while the event loop waits for the disk.

They would wait as long as the disk hangs, and that is what health checks are to find out. All get the reason, and
nothing else: 503, or the error of a command; a scrape of metrics gets the metrics of the disk. New connections only:
what the event loop has accepted is its own. HTTPS is not answered.
"""

from __future__ import annotations

import json
import select
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

from broker.management.prometheus.disk_metrics import disk_metrics

REQUEST_SECONDS = 0.5
"""Time for a caller to send its request: callers are answered one after the other."""
REQUEST_BYTES_MAX = 8192
RECEIVE_BYTES = 4096
TEXT, JSON = "text/plain; charset=utf-8", "application/json"


class _Answer(NamedTuple):
    """An answer to an HTTP request."""

    status: str
    content_type: str
    body: str


class StalledAnswers:
    """Answers by a thread. `reason` says what is waited for, `pending` are the seconds of pending writes by file."""

    def __init__(
        self,
        http: Iterable[socket.socket],
        operators: socket.socket,
        reason: Callable[[], str],
        pending: Callable[[], dict[str, float]],
    ) -> None:
        self._listeners = dict.fromkeys(http, self._answer_http)
        self._listeners[operators] = self._answer_command
        self._reason = reason
        self._pending = pending

    def answer_for(self, seconds: float) -> None:
        """Answer those who connect within `seconds`; return at the latest a little later."""
        poll, by_descriptor = select.poll(), dict[int, socket.socket]()
        for listener in self._listeners:
            if (descriptor := listener.fileno()) >= 0:
                by_descriptor[descriptor] = listener
                poll.register(descriptor, select.POLLIN)
        for descriptor, _ in poll.poll(seconds * 1000):
            with suppress(OSError):  # the event loop has accepted it, or the caller has gone
                self._answer(by_descriptor[descriptor])

    def _answer(self, listener: socket.socket) -> None:
        caller, _ = listener.accept()
        with caller:
            caller.settimeout(REQUEST_SECONDS)
            caller.sendall(self._listeners[listener](caller))
            caller.shutdown(socket.SHUT_WR)
            while caller.recv(RECEIVE_BYTES):  # a socket that is closed with unread input takes the answer with it
                pass

    def _answer_command(self, caller: socket.socket) -> bytes:
        _read(caller, b"\n")
        return json.dumps({"error": {"kind": "failed", "message": self._reason()}}).encode() + b"\n"

    def _answer_http(self, caller: socket.socket) -> bytes:
        method, _, rest = _read(caller, b"\r\n\r\n").decode("latin-1").partition(" ")
        answer = self._answer_to(rest.partition(" ")[0].partition("?")[0])
        head = [
            f"HTTP/1.1 {answer.status}",
            f"content-type: {answer.content_type}",
            f"content-length: {len(answer.body.encode())}",
            "retry-after: 1",
            "connection: close",
        ]
        return "\r\n".join([*head, "", "" if method == "HEAD" else answer.body]).encode()

    def _answer_to(self, path: str) -> _Answer:
        reason = self._reason()
        if path == "/metrics" or path.startswith("/metrics/"):
            return _Answer("200 OK", "text/plain; version=0.0.4; charset=utf-8", disk_metrics(reason, self._pending()))
        if path.startswith(("/healthz", "/readyz")):
            return _Answer("503 Service Unavailable", TEXT, f"{reason}\n")
        body = {"status": "failed", "error": "disk_hangs", "reason": reason}
        return _Answer("503 Service Unavailable", JSON, json.dumps(body))


def _read(caller: socket.socket, end: bytes) -> bytes:
    """Return what a caller sends up to `end`."""
    received = b""
    while end not in received and len(received) < REQUEST_BYTES_MAX:
        some = caller.recv(RECEIVE_BYTES)
        if not some:
            break
        received += some
    return received
