"""`leveret test -- COMMAND`: a broker for any language."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from harness.waiting import eventually

pytestmark = pytest.mark.slow

LEVERET = (sys.executable, "-m", "leveret", "test")
PYTHON = (sys.executable, "-c")
USE = """
import os, sys, pika
from leveret.testing import Control
assert os.environ["AMQP_URL"] == os.environ["RABBITMQ_URL"]
assert not os.environ["AMQP_URL"].endswith("/"), "which for Ruby and Java is the virtual host without a name"
with pika.BlockingConnection(pika.URLParameters(os.environ["AMQP_URL"])) as connection:
    connection.channel().queue_declare("jobs")
control = Control(os.environ["LEVERET_CONTROL_URL"])
control.expect("declared", queue="jobs")
print(os.environ["AMQP_URL"])
sys.exit(7)
"""


def test_a_command_has_a_broker_and_nothing_is_left(environment: dict[str, str], tmp_path: Path) -> None:
    environment["TMPDIR"] = str(tmp_path)
    command = [*LEVERET, "--log", str(tmp_path / "log"), "--", *PYTHON, USE]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (7, "")
    where = urlsplit(ended.stdout.strip())
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((where.hostname, where.port))
    assert [path.name for path in tmp_path.iterdir()] == ["log"]
    assert "[testing] is enabled" in (tmp_path / "log").read_text()


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (("no-such-program",), 127, "no-such-program: No such file or directory"),
        ((*PYTHON, "import os; os.kill(os.getpid(), 9)"), 137, ""),
        ((), 2, "COMMAND... is missing; for example: leveret test -- npm test"),
    ],
)
def test_exit_codes_are_those_of_a_shell(
    environment: dict[str, str], command: tuple[str, ...], code: int, said: str
) -> None:
    ended = subprocess.run([*LEVERET, "--", *command], env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == code
    assert said in ended.stderr


def test_settings_that_the_broker_refuses(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "settings").write_text("[server]\nspeed = 3\n")
    command = [*LEVERET, "--config", str(tmp_path / "settings"), "--", "true"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr.startswith("leveret: error: the broker did not start")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_command_then_the_broker(
    environment: dict[str, str], tmp_path: Path, number: signal.Signals
) -> None:
    """Ended from outside, by a CI or with its terminal for example, it leaves nothing either."""
    environment["TMPDIR"] = str(tmp_path)
    program = "import os, time; open('began', 'w').write(str(os.getppid()))\nwhile True: time.sleep(0.1)"
    process = subprocess.Popen([*LEVERET, "--", *PYTHON, program], env=environment, cwd=tmp_path)
    eventually((tmp_path / "began").exists, "the command to begin")
    os.kill(process.pid, number)
    assert process.wait(30) == 128 + number
    assert [path.name for path in tmp_path.iterdir()] == ["began"]
