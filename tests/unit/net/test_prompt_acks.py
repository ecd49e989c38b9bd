"""Answers to clients that have Nagle's algorithm on and write in two pieces.

The second piece leaves the client when the broker has acknowledged the first. The kernel by itself takes 40 ms for
that, each time; so the quickest of several round trips tells the two apart on a machine however busy.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from broker.wire.constants import FRAME_END
from broker.wire.frames import method_frame
from broker.wire.methods import BasicQos, ChannelOpen
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.certificate_authority import Authority
from harness.brokers.http_broker import request, web_address, web_broker
from harness.clients.amqp_peer import Login
from harness.clients.wire_client import TIMEOUT_SECONDS, Address

pytestmark = pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="the system has no TCP_QUICKACK")

DELAY_SECONDS = 0.04
"""Shortest delay of an acknowledgement: TCP_DELACK_MIN of Linux."""
WARM_UP, ROUNDS = 20, 10
"""The kernel acknowledges the first 16 segments of a connection at once."""
FRAME = bytes([FRAME_END])
QUESTION = method_frame(1, BasicQos(0, 10, False))


class NagleClient:
    """A socket with Nagle's algorithm on, as it is by default, with TLS or without."""

    def __init__(self, address: Address, security: ssl.SSLContext | None) -> None:
        self.socket = socket.create_connection(address, TIMEOUT_SECONDS)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls: ssl.SSLObject | None = None
        if security is not None:
            self._tls = security.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
            self._shake_hands(self._tls)

    def _shake_hands(self, tls: ssl.SSLObject) -> None:
        while True:
            try:
                tls.do_handshake()
            except ssl.SSLWantReadError:
                self.socket.sendall(self._outgoing.read())
                self._incoming.write(self.socket.recv(65536))
            else:
                break
        self.socket.sendall(self._outgoing.read())

    def ask(self, data: bytes, end: bytes) -> float:
        """Send bytes in two pieces, receive until `end`, and return the seconds that took."""
        if self._tls is not None:
            self._tls.write(data)
            data = self._outgoing.read()
        began, half = time.monotonic(), len(data) // 2
        self.socket.sendall(data[:half])
        self.socket.sendall(data[half:])
        answer = b""
        while not answer.endswith(end):
            answer += self._receive()
        return time.monotonic() - began

    def _receive(self) -> bytes:
        received = self.socket.recv(65536)
        assert received, "the broker has closed the connection"
        if self._tls is None:
            return received
        self._incoming.write(received)
        try:
            return self._tls.read(65536)
        except ssl.SSLWantReadError:
            return b""

    def quickest(self, data: bytes, end: bytes) -> float:
        """Return the seconds of the quickest answer, after some that do not count."""
        for _ in range(WARM_UP):
            self.ask(data, end)
        return min(self.ask(data, end) for _ in range(ROUNDS))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[BrokerProcess]:
    """A broker with all four kinds of listeners."""
    process = web_broker(tmp_path_factory.mktemp("broker"), tls=authority.config())
    process.start()
    yield process
    assert process.stop() == 0, process.log()


@pytest.fixture(params=["plain", "TLS"])
def security(request: pytest.FixtureRequest, authority: Authority) -> ssl.SSLContext | None:
    """A context of a client; None without TLS."""
    return authority.client() if request.param == "TLS" else None


def test_amqp_is_answered_before_the_kernel_would_acknowledge(
    broker: BrokerProcess, security: ssl.SSLContext | None
) -> None:
    address = broker.address if security is None else broker.tls_address
    client = NagleClient(address, security)
    with closing(client.socket):
        header, start_ok, tune_ok, opening = Login().at_once()
        for step in (header, start_ok, tune_ok + opening, method_frame(1, ChannelOpen())):
            client.ask(step, FRAME)
        assert client.quickest(QUESTION, FRAME) < DELAY_SECONDS / 2


def test_http_is_answered_before_the_kernel_would_acknowledge(
    broker: BrokerProcess, security: ssl.SSLContext | None
) -> None:
    client = NagleClient(web_address(broker, "http" if security is None else "https"), security)
    with closing(client.socket):
        assert client.quickest(request("/api/whoami"), b"}") < DELAY_SECONDS / 2
