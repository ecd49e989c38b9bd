"""Sockets that clients connect to: who is taken in, and never given up while they are open.

Addresses that cannot be bound are refused in words: tests/durability/restart/test_stop.py.
"""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
import trio
import trio.testing

from broker.config import Address
from broker.server.net import listeners
from broker.server.net.listeners import accept_forever, bind
from broker.session.peer import Peer
from harness.brokers.broker_server import eventually


class Door:
    """A listener that takes clients in, and what it has taken."""

    def __init__(self) -> None:
        (self.listener,) = bind([Address("127.0.0.1", 0)], 16)
        self.address = self.listener.getsockname()
        self.guests: list[tuple[socket.socket, Peer]] = []

    def welcome(self, sock: socket.socket, peer: Peer) -> None:
        self.guests.append((sock, peer))

    async def stand_open(self) -> None:
        await accept_forever(self.listener, self.welcome)

    def close(self) -> None:
        for sock, _ in self.guests:
            sock.close()
        self.listener.close()


@pytest.fixture
def door() -> Iterator[Door]:
    with closing(Door()) as door:
        yield door


async def test_clients_are_taken_in(door: Door, nursery: trio.Nursery) -> None:
    nursery.start_soon(door.stand_open)
    with socket.create_connection(door.address) as one, socket.create_connection(door.address):
        await eventually(lambda: len(door.guests) == 2, "two guests")
        sock, peer = door.guests[0]
        assert peer[:4] == one.getsockname() + door.address
        assert peer.loopback
        assert not sock.getblocking()
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


@contextmanager
def no_more_descriptors() -> Iterator[None]:
    """The process may open none beside those it has."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_without_descriptors_clients_wait(
    door: Door, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """They are in the system's queue meanwhile, and the broker tries again and again."""
    monkeypatch.setattr(listeners, "RETRY_SECONDS", 0.01)
    nursery.start_soon(door.stand_open)
    with socket.socket() as client:
        await trio.testing.wait_all_tasks_blocked()
        with no_more_descriptors():
            client.connect(door.address)
            await eventually(lambda: caplog.text.count("cannot accept a connection: Too many open files") > 2, "tries")
            assert door.guests == []
        await eventually(lambda: len(door.guests) == 1, "the client to be let in")


@pytest.mark.parametrize(
    ("theirs", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.9.10", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("::ffff:192.0.2.1", False),
        ("192.0.2.1", False),
        ("fe80::1%eth0", False),
    ],
)
def test_who_is_near(theirs: str, loopback: bool) -> None:
    """The user guest may come from the same machine only, over whichever family of addresses."""
    assert listeners._peer((theirs, 50000), ("::", 5672)).loopback is loopback
