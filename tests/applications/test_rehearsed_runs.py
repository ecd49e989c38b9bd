"""`leveret test --personality A,B` and pytest's `--leveret-personalities`: runs compared, and their reports."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.project import ROOT
from harness.waiting import eventually

pytestmark = pytest.mark.slow

APPLICATION = """
import os, sys
from tests.applications import rehearsed_applications
getattr(rehearsed_applications, sys.argv[1])(os.environ["AMQP_URL"])
"""
FOR_EVER = """
import os, pika
with pika.BlockingConnection(pika.URLParameters(os.environ["AMQP_URL"])) as connection:
    channel = connection.channel()
    channel.queue_declare("poison", durable=True, arguments={"x-queue-type": "quorum", "x-delivery-limit": 2})
    channel.confirm_delivery()
    channel.basic_publish("", "poison", b"")
    for method, _, _ in channel.consume("poison", inactivity_timeout=0.3):
        if method is None:
            break
        channel.basic_nack(method.delivery_tag, requeue=True)
"""
TESTS = """
import pytest

def test_report(leveret, leveret_connection):
    leveret_connection.channel().queue_declare("report")

@pytest.mark.parametrize("name", ["one", "two"])
def test_fine(leveret_connection, name):
    leveret_connection.channel().queue_declare(name, durable=True)

def test_without_a_broker():
    pass
"""


def run(environment: dict[str, str], *options: str) -> tuple[int, str]:
    """The exit code and the report of `leveret test`."""
    environment = {**environment, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "leveret", "test", *options]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return ended.returncode, ended.stdout


def program(text: str, *arguments: str) -> tuple[str, ...]:
    """The command that runs a program."""
    return "--", sys.executable, "-c", text, *arguments


def test_an_application_that_differs(environment: dict[str, str]) -> None:
    options = "--personality", "3.13,4.2,4.3", "--format", "json"
    code, said = run(environment, *options, *program(APPLICATION, "spring_poison"))
    report: dict[str, Any] = json.loads(said)
    assert (code, report["exit_code"], report["verdict"]) == (3, 3, "something differs")
    assert [each["personality"] for each in report["runs"]] == ["3.13", "4.2", "4.3"]
    seen = {finding["rule"]: finding["seen_with"] for finding in report["findings"]}
    assert seen == {"endless-returns": ["3.13", "4.2", "4.3"], "delivery-count": ["3.13", "4.2"]}
    ends = {each["end"]: each["counts"] for each in report["messages"]}
    assert ends["dead-lettered (delivery_limit)"] == {"3.13": 1, "4.2": 1, "4.3": 0}
    assert ends["delivered more than 20 times"] == {"3.13": 0, "4.2": 0, "4.3": 1}


def test_a_refusal_as_text_and_html(environment: dict[str, str], tmp_path: Path) -> None:
    command = program(APPLICATION, "celery_control")
    code, said = run(environment, "--personality", "3.13,4.3", *command)
    assert code == 3
    assert "  4.3    exit code 1" in said
    assert (
        "queue 'celery@host.celery.pidbox' of vhost '/', connection 'celery-control': transient-queue, refused" in said
    )
    assert "connection 'celery-control': 0 with 3.13, 1 with 4.3\n      541 Feature `transient_nonexcl_queues`" in said
    written = tmp_path / "report.html"
    options = "--personality", "4.2,4.3", "--format", "html", "--output", str(written)
    assert run(environment, *options, *command) == (3, "")
    page = written.read_text()
    assert "<td>4.3</td><td>exit code 1" in page
    assert "transient-queue" in page


def test_a_healthy_application_and_one_that_fails_anyway(environment: dict[str, str]) -> None:
    options = "--personality", "3.13,4.3"
    code, said = run(environment, *options, *program(APPLICATION, "work_queue"))
    assert (code, said.splitlines()[0], len(said.splitlines())) == (0, "Rehearsal with 3.13, 4.3: nothing differs", 4)
    code, said = run(environment, *options, *program("raise SystemExit(5)"))
    assert (code, said.splitlines()[0]) == (1, "Rehearsal with 3.13, 4.3: the first run failed")
    assert run(environment, "--personality", "3.13,4.1", *program("")) == (2, "")


def test_an_application_without_an_end_is_ended(environment: dict[str, str]) -> None:
    options = "--personality", "3.13,4.3", "--timeout", "10", "--format", "json"
    code, said = run(environment, *options, *program(FOR_EVER))
    report = json.loads(said)
    assert (code, [each["exit_code"] for each in report["runs"]]) == (3, [0, None])
    assert {finding["rule"] for finding in report["findings"]} == {"endless-returns", "delivery-count"}


def test_a_signal_ends_all_runs(environment: dict[str, str], tmp_path: Path) -> None:
    text = "import os, time; open('began', 'a').write('x')\nwhile True: time.sleep(0.1)"
    options = "--personality", "3.13,4.3", "--timeout", "60", *program(text)
    command = [sys.executable, "-m", "leveret", "test", *options]
    process = subprocess.Popen(command, env={**environment, "PYTHONPATH": str(ROOT)}, cwd=tmp_path)
    began = tmp_path / "began"
    eventually(lambda: began.exists() and began.read_text(), "the command to begin")
    process.terminate()
    assert process.wait(30) == 128 + signal.SIGTERM
    assert began.read_text() == "x"


def pytest_run(project: Path, environment: dict[str, str], *options: str) -> tuple[int, str]:
    """The exit code and output of pytest with the plugin."""
    plugins = "-p", "pytest_leveret.plugin", "-p", "xdist.plugin"
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", *plugins, *options]
    ended = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    return ended.returncode, ended.stdout


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "workers"])
def test_each_test_with_each_personality(project: Path, environment: dict[str, str], workers: tuple[str, ...]) -> None:
    (project / "test_application.py").write_text(TESTS)
    options = "--leveret-personalities", "3.13,4.3", "--leveret-report", "report.json"
    code, said = pytest_run(project, environment, *options, *workers)
    assert code == 1
    assert "test_application.py::test_report: passed with 3.13, failed with 4.3" in said
    report = json.loads((project / "report.json").read_text())
    assert [test["test"] for test in report["tests"]] == ["test_application.py::test_report"]
    assert [run["tests"] for run in report["runs"]] == [3, 3]
    (finding,) = report["findings"]
    assert (finding["rule"], finding["name"], finding["count"]) == ("transient-queue", "report", 1)
    (refusal,) = report["refusals"]
    assert refusal["counts"] == {"3.13": 0, "4.3": 1}


def test_a_whole_run_of_pytest_tells_its_tests(project: Path, environment: dict[str, str]) -> None:
    (project / "test_application.py").write_text(
        "import os, pika\n\ndef test_report():\n"
        "    with pika.BlockingConnection(pika.URLParameters(os.environ['AMQP_URL'])) as connection:\n"
        "        connection.channel().queue_declare('report')\n"
    )
    command = sys.executable, "-m", "pytest", "-q", "-p", "pytest_leveret.plugin", "--tb=no", str(project)
    code, said = run(environment, "--personality", "3.13,4.3", "--", *command)
    assert code == 3
    assert "test_application.py::test_report: passed with 3.13, failed with 4.3" in said
