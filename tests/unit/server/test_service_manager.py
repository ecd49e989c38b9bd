"""Signs for a service manager: readiness by sd_notify(3), the watchdog, a log file that is rotated."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
from pathlib import Path

import pytest

from broker import __version__
from broker.admin.protocol import AdministrationError
from broker.config import ConfigError, LogsSettings
from broker.logs import set_up
from broker.server.start.start_line import CORE
from harness.brokers.broker_process import BrokerProcess
from harness.waiting import eventually
from tests.unit.conftest import Configured

SECONDS = 30.0


@pytest.mark.parametrize("abstract", [False, True], ids=["a path", "an abstract name"])
def test_systemd_hears_when_the_broker_is_ready_alive_and_stopping(tmp_path: Path, *, abstract: bool) -> None:
    name = f"@leveret-{os.getpid()}" if abstract else str(tmp_path / "notify")
    environment = {**os.environ, "NOTIFY_SOCKET": name, "WATCHDOG_USEC": "200000"}
    process = BrokerProcess(tmp_path / "data", environment=environment)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(name.replace("@", "\0"))
        channel.settimeout(SECONDS)
        process.start()
        assert channel.recv(4096).startswith(b"STATUS=listening on amqp://")
        told = set[bytes]()
        while told != {b"READY=1", b"WATCHDOG=1"}:  # in either order: the watchdog is fed while HTTP is loaded
            told.add(channel.recv(4096))
        assert process.stop() == 0
        eventually(lambda: b"STOPPING=1\n" in channel.recv(4096), "the end")
    process.environment = {**environment, "WATCHDOG_PID": "1", "NOTIFY_SOCKET": str(tmp_path / "gone")}
    process.start()
    assert process.stop() == 0
    assert process.log().count("systemd cannot be notified") == 3, "the address, ready, stopping; no watchdog"


def test_a_rotated_log_goes_on_in_a_new_file(configured: Configured, tmp_path: Path) -> None:
    log, rotated = tmp_path / "leveret.log", tmp_path / "leveret.log.1"
    process = configured(f'[logs]\nfile = "{log}"\n')
    log.rename(rotated)
    process.signal(signal.SIGUSR1)
    eventually(lambda: log.exists() and "log file reopened" in log.read_text(), "the new log file")
    log.rename(rotated)
    log.mkdir()
    process.signal(signal.SIGUSR1)
    eventually(lambda: "cannot reopen" in rotated.read_text(), "the file in use")
    assert process.log() == "", "all of it is in the file"
    with pytest.raises(ConfigError, match=r"logs\.file: .*none/x: cannot be opened: No such file or directory"):
        set_up(LogsSettings(file=str(tmp_path / "none" / "x")))


def test_the_log_begins_with_what_runs_and_ends_with_the_stop(configured: Configured, tmp_path: Path) -> None:
    process = configured('[defaults]\nuser = "app"\n[memory]\nhigh_watermark_bytes = 1048576000\n')
    pid = process.pid
    assert process.stop() == 0
    first, *_, last = process.log().splitlines()
    version = rf"leveret {re.escape(__version__)} as RabbitMQ 3.13, on Python [\d.]+, core: {CORE}, process {pid}"
    settings = f"settings: {tmp_path}/leveret.toml, LEVERET_CHECK_INVARIANTS"
    data = rf"data: {process.data_dir}, start number 1; limits: memory 1,000 MiB, free disk \d+ MiB, \d+ connections"
    assert re.search(rf" {version}; {settings}; {data}; users: app; virtual hosts: /$", first)
    assert last.endswith(" [info] stopped")


def test_level_and_form_of_the_log_change_while_it_runs(fresh_broker: BrokerProcess) -> None:
    fresh_broker.tell("set_log_form", form="json")
    fresh_broker.tell("add_vhost", name="v", description="", tags=[], default_queue_type="")
    fresh_broker.tell("set_log_level", level="error")
    fresh_broker.tell("delete_vhost", name="v")
    with pytest.raises(AdministrationError, match="form xml is not supported"):
        fresh_broker.tell("set_log_form", form="xml")
    _, form, added = fresh_broker.log().splitlines()
    assert json.loads(form)["message"] == "log is written as json until the next start, by the command line"
    assert json.loads(added)["message"] == "virtual host 'v' is added, unless it was there, by the command line"


def test_without_a_log_file_there_is_nothing_to_reopen(fresh_broker: BrokerProcess) -> None:
    fresh_broker.signal(signal.SIGUSR1)
    eventually(lambda: "no log file to reopen: the log goes to standard error" in fresh_broker.log(), "the log")
