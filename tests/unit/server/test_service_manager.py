"""What a service manager sees: readiness by sd_notify(3) and the watchdog."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import pytest

from harness.brokers.broker_process import BrokerProcess

SECONDS = 20.0


def hears(channel: socket.socket, state: bytes) -> bool:
    """Wait for a state; others may come before it."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        channel.settimeout(SECONDS)
        if state in channel.recv(4096).split(b"\n"):
            return True
    return False


@pytest.mark.parametrize("abstract", [False, True], ids=["a path", "an abstract name"])
def test_systemd_hears_when_the_broker_is_ready_alive_and_stopping(tmp_path: Path, *, abstract: bool) -> None:
    name = f"@leveret-{os.getpid()}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(name.replace("@", "\0"))
        environment = {**os.environ, "NOTIFY_SOCKET": name, "WATCHDOG_USEC": "200000"}
        process = BrokerProcess(tmp_path / "data", environment=environment)
        process.start()
        try:
            assert hears(channel, b"READY=1")
            assert hears(channel, b"WATCHDOG=1")
            assert hears(channel, b"WATCHDOG=1")
        finally:
            process.stop()
        assert hears(channel, b"STOPPING=1")


def test_without_a_watchdog_of_its_own_none_is_fed_and_a_socket_that_is_gone_stops_nothing(tmp_path: Path) -> None:
    environment = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "gone"), "WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"}
    process = BrokerProcess(tmp_path / "data", environment=environment)
    process.start()
    assert process.stop() == 0
    said = [line for line in process.log().splitlines() if "systemd cannot be notified" in line]
    assert len(said) == 3, "the address, ready, stopping"
