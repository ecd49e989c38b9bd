"""The plugin in a pytest of its own: fixtures, workers, asyncio and trio, and what a failure shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PLUGINS = ("pytest_leveret.plugin", "anyio.pytest_plugin", "xdist.plugin")

EMPTY = """
import pytest

@pytest.fixture(scope="session", autouse=True)
def told(leveret_process):
    print("broker of a worker:", leveret_process.pid, file=open("brokers", "a"))

@pytest.mark.parametrize("number", range(4))
def test_it_is_empty(leveret, leveret_connection, number):
    assert leveret.history() == []
    channel = leveret_connection.channel()
    channel.queue_declare("jobs", passive=False)
    channel.basic_publish("", "jobs", b"x")
    leveret.expect("routed", queue="jobs", count=1, exactly=True)
"""

TESTS = """
import asyncio
import trio

def test_one_of_its_own(leveret, own_leveret, new_leveret):
    other = new_leveret(settings="[identity]\\nversion = '3.12.0'\\n")
    assert len({leveret.port, own_leveret.port, other.port}) == 3

def test_a_connection_that_the_test_has_ended(leveret, leveret_connection):
    leveret.kill()

@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_aio_pika(leveret, leveret_aio_connection):
    async with leveret_aio_connection as connection:
        channel = await connection.channel()
        await channel.declare_queue("jobs")
    await asyncio.to_thread(leveret.expect, "declared", queue="jobs")

@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_trio(leveret, leveret_url):
    await trio.open_tcp_stream(leveret.host, leveret.port)
    await trio.to_thread.run_sync(leveret.wait_until_idle)
    assert str(leveret.port) in leveret_url
"""

FAILING = """
def test_failing(leveret, leveret_connection):
    channel = leveret_connection.channel()
    channel.queue_declare("orders")
    channel.basic_publish("", "orders", b"x")
    leveret.expect("acked", queue="orders", timeout_seconds=0.1)

def test_dead(leveret):
    leveret.kill()
    leveret.reset()
"""


def run(project: Path, environment: dict[str, str], *options: str) -> tuple[int, str]:
    """The exit code and output of pytest in a project."""
    command = [sys.executable, "-m", "pytest", *(f"-p{name}" for name in PLUGINS), *options]
    ended = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    return ended.returncode, ended.stdout + ended.stderr


def test_fixtures(project: Path, environment: dict[str, str]) -> None:
    """One process serves all tests, but where a test has killed it."""
    (project / "test_it.py").write_text(EMPTY + TESTS)
    code, output = run(project, environment)
    assert code == 0, output
    assert "8 passed" in output
    assert len((project / "brokers").read_text().splitlines()) == 1


def test_each_worker_has_a_broker(project: Path, environment: dict[str, str]) -> None:
    (project / "test_it.py").write_text(EMPTY)
    code, output = run(project, environment, "-n2")
    assert code == 0, output
    assert len(set((project / "brokers").read_text().splitlines())) == 2


def test_a_failure_shows_log_and_events(project: Path, environment: dict[str, str]) -> None:
    (project / "test_it.py").write_text(FAILING)
    code, output = run(project, environment)
    assert code == 1, output
    alive, dead = output.split("___ test_dead ___")
    assert "expected 1 of these events, saw 0" in alive
    assert re.findall(r"^\S+\.py:\d+: ?\w*", alive, re.MULTILINE) == ["test_it.py:6: NotMetError"], "no frame is ours"
    assert re.findall(r"^\S+\.py:\d+: ?\w*", dead, re.MULTILINE) == ["test_it.py:10: LeveretError"]
    assert re.search(r"log of leveret at amqp://.*\n(.*\n)*.*everything is reset", alive)
    assert re.search(r"last events of queue 'orders' in '/', 2 in all -+\n +1 declared", alive)
    assert re.search(r" 3 routed .*routing_key=orders", alive)
    assert "gone with its process" in dead


def test_a_broker_that_cannot_start_is_one_clear_error(project: Path, environment: dict[str, str]) -> None:
    (project / "pytest.ini").write_text("[pytest]\nleveret_settings =\n  [server]\n  speed = 3\n")
    (project / "test_it.py").write_text("def test_it(leveret): pass\n")
    code, output = run(project, environment)
    assert code == 1, output
    assert "LeveretError: the broker did not start: exit code 1" in output
    assert "speed" in output


def test_a_session_without_a_broker_loads_nothing(project: Path, environment: dict[str, str]) -> None:
    (project / "test_it.py").write_text("import sys\ndef test_it(): assert 'leveret.testing' not in sys.modules\n")
    assert run(project, environment)[0] == 0
