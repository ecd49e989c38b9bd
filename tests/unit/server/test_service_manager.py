"""What a service manager sees: readiness by sd_notify(3), the watchdog, a log file that is rotated."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path

import pytest

from broker.config import ConfigError, Logs
from broker.logs import set_up
from harness.brokers.broker_process import BrokerProcess
from harness.waiting import eventually
from tests.unit.conftest import Configured

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


def test_a_rotated_log_goes_on_in_a_new_file(configured: Configured, tmp_path: Path) -> None:
    log, rotated = tmp_path / "leveret.log", tmp_path / "leveret.log.1"
    process = configured(f'[logs]\nfile = "{log}"\n')
    process.signal(signal.SIGHUP)
    eventually(lambda: "nothing to reload on SIGHUP" in log.read_text(), "the log file")
    log.rename(rotated)
    process.signal(signal.SIGUSR1)
    eventually(lambda: log.exists() and "log file reopened" in log.read_text(), "the new log file")
    log.rename(rotated)
    log.mkdir()
    process.signal(signal.SIGUSR1)
    eventually(lambda: "cannot reopen" in rotated.read_text(), "the file in use")
    assert process.log() == ""


def test_without_a_log_file_there_is_nothing_to_reopen(fresh_broker: BrokerProcess) -> None:
    fresh_broker.signal(signal.SIGUSR1)
    eventually(lambda: "no log file to reopen: the log goes to standard error" in fresh_broker.log(), "the log")


def test_a_log_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"logs\.file: .*none/x: cannot be opened: No such file or directory"):
        set_up(Logs(file=str(tmp_path / "none" / "x")))
