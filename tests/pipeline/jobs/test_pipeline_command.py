"""`leveret pipeline`: what its commands take, what they say, and how they end."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest
from click.testing import CliRunner

from broker.admin.protocol import AdministrationError
from broker.cli.jobs.pipeline_extra import pipeline_module
from broker.cli.jobs.pipeline_group import pipeline
from broker.cli.jobs.pipeline_options import UNSEALED, timed
from harness.brokers.foreign_packages import foreign_packages
from harness.brokers.recording_broker import events_in, recording_broker
from harness.project import ROOT
from harness.waiting import eventually
from leveret_events.segment_names import unsealed_name
from pipeline.event_parts import has_unsealed
from pipeline.jobs.engines import packed_code
from tests.pipeline.conftest import JAVA_FOR_TESTS, SETTINGS_FOR_TESTS
from tests.pipeline.inputs.command import Ended, leveret
from tests.pipeline.inputs.made_up_events import begun, export_of
from tests.pipeline.inputs.queue_client import desk_at

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.slow

SOON = {**SETTINGS_FOR_TESTS, "spark.driver.defaultJavaOptions": JAVA_FOR_TESTS}
"""Small jobs are done sooner so."""

HEADING = "vhost  queue  from, to            durations  p50 ms  p95 ms  p99 ms  max ms"


def test_a_missing_library_is_said_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    monkeypatch.delitem(sys.modules, "pipeline.export", raising=False)
    with pytest.raises(AdministrationError, match=r"^pyarrow is missing: `.*install 'leveret\[pipeline\]'"):
        pipeline_module("export")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("audit",), "Missing option '--out'"),
        (("audit", "--out", "x", "--conf", "spark.sql"), "'spark.sql' is not KEY=VALUE"),
    ],
)
def test_what_means_nothing_is_refused(arguments: tuple[str, ...], complaint: str) -> None:
    ended = CliRunner().invoke(pipeline, arguments)
    assert ended.exit_code == 2
    assert complaint in ended.output


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("2026-11-21", datetime(2026, 11, 21, tzinfo=UTC)),
        ("2026-11-21T19:30:05.25", datetime(2026, 11, 21, 19, 30, 5, 250_000, tzinfo=UTC)),
        ("2026-11-21T19:30+01:00", datetime(2026, 11, 21, 19, 30, tzinfo=timezone(timedelta(hours=1)))),
    ],
)
def test_times_are_utc_unless_they_say_otherwise(given: str, meant: datetime) -> None:
    told = []

    @click.command()
    @timed
    def command(since: datetime | None, until: datetime | None) -> None:
        told.append((since, until))

    assert CliRunner().invoke(command, ["--since", given]).exit_code == 0
    assert told == [(meant, None)]
    refused = CliRunner().invoke(command, ["--until", "tomorrow"])
    assert (refused.exit_code, "'tomorrow' is no time such as 2026-11-21T19:30" in refused.output) == (2, True)


@pytest.mark.parametrize("job", ["audit", "latency", "throughput"])
def test_a_log_that_is_not_there_is_said_before_spark_starts(job: str, tmp_path: Path) -> None:
    command = [job, "--from", f"{tmp_path}/none", "--out", str(tmp_path), "--master", "no master"]
    with pytest.raises(FileNotFoundError, match=f"{tmp_path}/none"):
        CliRunner().invoke(pipeline, command, catch_exceptions=False)


@pytest.mark.parametrize(("directory", "code"), [("whole", 0), ("strict", 1)])
def test_what_is_unknown_fails_only_if_it_is_to(directory: str, code: int, tmp_path: Path) -> None:
    """A message in doubt; and the command says that the newest events are not seen yet."""
    history = begun("node")
    history.publish()
    history.start(known=100)
    history.recorded()
    export_of(tmp_path / "log", [history])
    unsealed = tmp_path / "log" / unsealed_name("node", 3, 1)
    unsealed.write_bytes(b"")
    strict = ["--strict"] if directory == "strict" else []
    ended = leveret("pipeline", "audit", "--from", tmp_path / "log", "--out", tmp_path / directory, *strict)
    assert ended.code == code
    assert "unknown  1" in ended.output
    assert ended.errors == f"{UNSEALED}\n"


def test_a_running_broker_seals_its_newest_events_when_asked(tmp_path: Path) -> None:
    broker = recording_broker(tmp_path)
    broker.start()
    try:
        with desk_at(broker.address) as desk:
            desk.channel.confirm_delivery()
            desk.channel.queue_declare("q", durable=True)
            desk.publish("q", [b"1"])
            eventually(lambda: has_unsealed(str(broker.data_dir / "events")), "events on disk")
            job = ("pipeline", "audit", "--data-dir", broker.data_dir, "--out", tmp_path / "out")
            before, after = leveret(*job), leveret(*job, "--seal")
    finally:
        assert broker.stop() == 0
    assert (before.code, before.errors) == (0, f"{UNSEALED}\n")
    assert "queued" not in before.output
    assert "queued   1" in after.output


def by_itself(*arguments: str) -> Ended:
    """A command as a user starts it, with a Spark of its own, in a project that has packages of our names."""
    settings = [part for name, value in SOON.items() for part in ("--conf", f"{name}={value}")]
    command = [sys.executable, "-m", "leveret", *arguments, "--engine", "spark", "--master", "local[2]", *settings]
    with foreign_packages() as project:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(project), str(ROOT)])}
        ended = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def test_tasks_of_a_cluster_import_the_packages_that_are_sent_to_them(tmp_path: Path) -> None:
    """Also where a node has others of these names, of an earlier release."""
    (tmp_path / "leveret_spark").mkdir()
    (tmp_path / "leveret_spark" / "__init__.py").touch()
    sent = str(packed_code())
    imported = "import sys, pipeline.audit.audit, pipeline.jobs.engines, pipeline.packed_events, storage"
    told = "print(pipeline.__file__, storage.__file__, sys.modules['leveret_spark'].__file__, 'broker' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([sent, str(tmp_path)])}
    command = [sys.executable, "-P", "-c", f"{imported}; {told}"]
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    expected = [f"{sent}/{package}/__init__.py" for package in ("pipeline", "storage", "leveret_spark")]
    assert ended.stdout.split() == [*expected, "False"], ended


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a broker that has stopped, with its event log: one of five messages was consumed."""
    broker = recording_broker(tmp_path_factory.mktemp("log"))
    broker.start()
    try:
        with desk_at(broker.address) as desk:
            desk.channel.confirm_delivery()
            desk.channel.queue_declare("q", durable=True)
            desk.publish("q", [b"12345"] * 5)
            method, _, _ = desk.channel.basic_get("q")
            desk.channel.basic_ack(method.delivery_tag)
    finally:
        assert broker.stop() == 0
    return broker.data_dir


def done(run: Callable[..., Ended], job: str, log: Path, out: Path, *arguments: str) -> list[str]:
    """Return the output of a job that ends well, behind its lines on the log."""
    ended = run("pipeline", job, "--data-dir", str(log), "--out", str(out), *arguments)
    assert (ended.code, ended.errors) == (0, "")
    events = events_in(log / "events")
    lines = ended.output.splitlines()
    assert lines[0] == f"{len(events)} events of {events[0].node}, 1 boots, 0 gaps"
    assert re.fullmatch(r"from 20\S+Z until 20\S+Z", lines[1])
    return lines[3:]


def facts(out: Path, job: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((out / job / "_run.json").read_text())
    return told["facts"]


def test_the_audit_of_a_brokers_log(log: Path, tmp_path: Path) -> None:
    told = done(by_itself, "audit", log, tmp_path)
    assert told == ["verdict  copies", "queued   4", "settled  1", "", "0 lost, 0 with violations"]
    assert facts(tmp_path, "audit")["verdicts"] == {"queued": 4, "settled": 1}
    assert "<strong>No confirmed message was lost</strong>" in (tmp_path / "report.html").read_text()


def test_latencies_of_a_brokers_log(log: Path, tmp_path: Path) -> None:
    told = done(leveret, "latency", log, tmp_path)
    assert told[:2] == ["7 durations", HEADING]
    stages = [re.match(r"/ +q +(\w+ to \w+) +(\d) +([\d.]+) ", line) for line in told[2:]]
    assert [(stage[1], stage[2]) for stage in stages if stage and float(stage[3]) < 60_000] == [
        ("publish to confirm", "5"),
        ("publish to deliver", "1"),
        ("deliver to ack", "1"),
    ]
    assert (facts(tmp_path, "latency")["durations"], facts(tmp_path, "latency")["negative"]) == (7, 0)
    assert re.findall(r"<h2.*?>(.*?)</h2>", (tmp_path / "report.html").read_text()) == ["Latency"]


def test_throughput_of_a_brokers_log(log: Path, tmp_path: Path) -> None:
    (heading, line) = done(leveret, "throughput", log, tmp_path, "--since", "2000-01-01")
    assert line.split() == ["/", "q", "5", "1", "1", "0", "0", "0.00", *line.split()[-2:]]
    assert heading.split()[-2:] == ["deepest", "depth"]
    assert line.split()[-1] == "4"
    counts = facts(tmp_path, "throughput")["counts"]
    assert (counts["published"], counts["bytes_in"], counts["acked"]) == (5, 25, 1)
