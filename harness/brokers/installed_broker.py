"""An installed Leveret, tried as a user does: commands, a message over a restart, beside packages of our names."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pika

from harness.brokers.broker_process import BrokerProcess
from harness.brokers.foreign_packages import foreign_packages
from harness.project import ROOT

QUEUE = "kept"
COMMAND_SECONDS = 60


def try_out(programs: Path, command: str, scratch: Path) -> None:
    """Run the broker and commands by a program of an environment, such as `leveret` or `python -m leveret`.

    Data and log are below `scratch`. Fails with AssertionError, or CalledProcessError with what a command said.
    """
    broker = BrokerProcess(scratch / "data")
    name, *arguments = command.split()
    broker.program = (str(programs / name), *arguments)
    with foreign_packages() as broker.directory:
        ours = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        broker.environment = {**ours, "PYTHONPATH": str(broker.directory)}
        assert _run(broker, "config", "show") == (ROOT / "config.example.toml").read_text()
        broker.start()
        try:
            _publish(broker, b"hello")
            broker.restart()
            assert _get(broker) == b"hello"
        finally:
            broker.stop()
        contents = _run(broker, "inspect", "--data-dir", str(broker.data_dir), "--format", "json")
        assert json.loads(contents)["queue"] == QUEUE


def _run(broker: BrokerProcess, *arguments: str) -> str:
    """Return a command's output."""
    return subprocess.run(
        [*broker.program, *arguments],
        cwd=broker.directory,
        env=broker.environment,
        stdout=subprocess.PIPE,
        text=True,
        timeout=COMMAND_SECONDS,
        check=True,
    ).stdout


def _publish(broker: BrokerProcess, body: bytes) -> None:
    """Publish a persistent message to a durable queue, and await the confirm."""
    with pika.BlockingConnection(pika.ConnectionParameters(*broker.address)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare(QUEUE, durable=True)
        channel.basic_publish("", QUEUE, body, pika.BasicProperties(delivery_mode=2), mandatory=True)


def _get(broker: BrokerProcess) -> bytes | None:
    """The first message of the queue, if there is one."""
    with pika.BlockingConnection(pika.ConnectionParameters(*broker.address)) as connection:
        body: bytes | None = connection.channel().basic_get(QUEUE, auto_ack=True)[2]
        return body
