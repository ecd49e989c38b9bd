"""`leveret test-brokers`: brokers for libraries in other languages, by lines of JSON."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.waiting import eventually

pytestmark = pytest.mark.slow


class Library:
    """Asks the process for brokers, as a library does."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "leveret", "test-brokers"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, request: str, broker: int, **values: object) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"id": 7, "request": request, "broker": broker, **values}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        assert answer.pop("id") == 7
        return answer

    def end(self) -> int:
        """End standard input; the exit code."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        code = self.process.wait(60)
        self.process.stdout.close()
        return code


@pytest.fixture
def library(environment: dict[str, str], tmp_path: Path) -> Iterator[Library]:
    library = Library({**environment, "TMPDIR": str(tmp_path)})
    yield library
    library.end()


def answers(port: int) -> bool:
    """Somebody accepts connections there."""
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_a_broker_is_killed_started_again_and_closed(library: Library, tmp_path: Path) -> None:
    facts = library.ask("new", 1, personality="4.3")["answer"]
    assert facts["url"] == f"amqp://guest:guest@127.0.0.1:{facts['port']}"
    assert answers(facts["port"])
    assert library.ask("kill", 1) == {"answer": None}
    assert library.ask("wait_for_end", 1, seconds=1) == {"answer": -signal.SIGKILL}
    assert not answers(facts["port"])
    again = library.ask("fresh", 1)["answer"]
    assert (again["port"], again["managementUrl"]) == (facts["port"], facts["managementUrl"])
    assert library.ask("log", 1)["answer"].count("as RabbitMQ 4.3") == 2
    assert library.ask("close", 1) == {"answer": None}
    assert list(tmp_path.iterdir()) == []


def test_refusals_name_their_reason(library: Library) -> None:
    assert "speed" in library.ask("new", 1, settings="[server]\nspeed = 3\n")["error"]
    assert library.ask("kill", 1)["error"].startswith("there is no broker 1")
    library.ask("new", 1)
    assert library.ask("new", 1)["error"] == "there is a broker 1 already"
    assert library.ask("purge", 1)["error"].startswith("there is no request purge; there are new, close, start")
    assert library.ask("start", 1)["error"].startswith("the broker runs already")


@pytest.mark.parametrize("end", ["standard input", "SIGTERM"])
def test_all_ends_with_the_tests(library: Library, tmp_path: Path, end: str) -> None:
    """^C at the terminal is for the tests, and so is the end of the terminal."""
    pid = library.ask("new", 1)["answer"]["pid"]
    library.process.send_signal(signal.SIGINT)
    library.process.send_signal(signal.SIGHUP)
    port = library.ask("new", 2)["answer"]["port"]
    if end == "SIGTERM":
        library.process.terminate()
        assert library.process.wait(60) == 128 + signal.SIGTERM
    else:
        assert library.end() == 0
    assert not answers(port)
    assert list(tmp_path.iterdir()) == []
    eventually(lambda: not Path("/proc", str(pid)).exists(), "the process to end")
