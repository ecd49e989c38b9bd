"""The examples do what their page says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.brokers.broker_process import BrokerProcess
from harness.brokers.program_file import program_file
from harness.clients.node_amqplib import needs_node, node_environment
from harness.passing_commands import passed
from harness.project import ROOT

EXAMPLES = ROOT / "examples"
SECONDS = 60

PRINTED = {
    "hello.py": ["Hello, world"],
    "retries.py": [
        "easy: done at attempt 1",
        "hard: attempt 1 failed",
        "hard: attempt 2 failed",
        "hard: parked after 3 attempts",
    ],
    "service.py": ["0", "1", "4", "9", "16"],
    "stream.py": [
        f"from {first}: reading {n} at offset {n}" for first, start in (("first", 0), (3, 3)) for n in range(start, 5)
    ],
}


def environment(broker: BrokerProcess) -> dict[str, str]:
    host, port = broker.address
    return {**os.environ, "AMQP_URL": f"amqp://guest:guest@{host}:{port}/", "PYTHONDONTWRITEBYTECODE": "1"}


def printed(example: str, broker: BrokerProcess) -> list[str]:
    command = [sys.executable, str(EXAMPLES / example)]
    run = subprocess.run(
        command, env=environment(broker), cwd=EXAMPLES, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert (run.returncode, run.stderr) == (0, "")
    return run.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("example", PRINTED)
def test_an_example_runs(fresh_broker: BrokerProcess, example: str) -> None:
    assert printed(example, fresh_broker) == PRINTED[example]


@pytest.mark.slow
def test_the_celery_example_runs(fresh_broker: BrokerProcess, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "celery", "--app", "tasks", "worker", "--pool", "solo"]
    with (tmp_path / "log").open("wb") as log:
        worker = subprocess.Popen(command, env=environment(fresh_broker), cwd=EXAMPLES, stdout=log, stderr=log)
        try:
            assert printed("tasks.py", fresh_broker) == ["42.0", "42.0"]
        finally:
            worker.terminate()
            worker.wait(SECONDS)


@pytest.mark.slow
@pytest.mark.parametrize("example", ["testing-pika", "testing-aio-pika", "testing-celery"])
def test_the_tests_of_an_example_pass(example: str) -> None:
    """They run as after an installation of `leveret[pytest]`."""
    plugins = ("-ppytest_leveret.plugin", "-panyio.pytest_plugin", "-pno:cacheprovider")
    of_users = {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    variables = {**os.environ, **of_users, "PYTHONDONTWRITEBYTECODE": "1"}
    passed([sys.executable, "-m", "pytest", *plugins], EXAMPLES / example, variables, seconds=SECONDS)


@pytest.mark.slow
@needs_node
def test_the_tests_of_the_node_example_pass(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    program = program_file(tmp_path)
    directory = EXAMPLES / "testing-node"
    assert json.loads((directory / "package.json").read_text())["scripts"]["test"] == "node --test"
    variables = {"LEVERET_PROGRAM": str(program), "PYTHONDONTWRITEBYTECODE": "1"}
    environment = {**node_environment(request.config, tmp_path_factory), **variables}
    passed(["node", "--test"], directory, environment, seconds=SECONDS)


def test_the_page_names_every_example() -> None:
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert (
        set(re.findall(r"\]\((\w+\.py)\)", page))
        == {path.name for path in EXAMPLES.glob("*.py")}
        == {*PRINTED, "tasks.py"}
    )
    assert set(re.findall(r"\]\((testing-[\w-]+)\)", page)) == {path.name for path in EXAMPLES.glob("testing-*")}
