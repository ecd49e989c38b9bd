"""`leveret archive`: a message is in the queue or in a file that is listed, whatever fails, and in both it says so.

These tests can be pointed at RabbitMQ as those of the protocol can, but for those that kill the broker.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest

from harness.brokers.broker_process import BrokerProcess
from harness.brokers.full_disk import no_file_larger_than
from harness.project import ROOT
from harness.waiting import eventually
from leveret_spark.amqp.holding import Holding
from leveret_spark.option_errors import AmqpError, OptionError
from leveret_spark.options import broker_of
from pipeline.archive import SCHEMA, Archive, FileError, FileLimits, Progress, Wanted, archived_files, begin, ready
from tests.pipeline.inputs.expected_reads import check_at_least_once
from tests.pipeline.inputs.queue_client import Desk, desk_at

pytestmark = pytest.mark.slow

Queue = Callable[..., str]

SMALL = FileLimits(messages=10)


def run(archive: Archive, wanted: Wanted, stopped: Callable[[], bool] = lambda: False) -> list[Progress]:
    """Archive what is wanted; what was told of it."""
    told: list[Progress] = []
    archive.run(wanted, is_stopped=stopped, tell=told.append)
    return told


def rows(out: Path) -> list[dict[str, Any]]:
    """What the listed files have, in their order."""
    return [row for file in archived_files(str(out)) for row in pq.read_table(file).to_pylist()]


def numbers(out: Path) -> list[int]:
    return [int(row["body"]) for row in rows(out)]


def listed(out: Path) -> list[dict[str, Any]]:
    return [file for path in sorted(out.glob("_manifest-*")) for file in json.loads(path.read_text())["files"]]


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def test_what_is_ready_goes_into_files_and_leaves_the_queue(desk: Desk, queue: Queue, tmp_path: Path) -> None:
    source = queue()
    desk.publish(source, numbered(25))
    assert ready(desk.options, source) == 25
    told = run(begin(desk.options, source, str(tmp_path), SMALL, keep=False), Wanted(25))
    assert [(progress.messages, progress.files) for progress in told] == [(10, 1), (20, 2), (25, 3)]
    assert numbers(tmp_path) == list(range(25))
    assert desk.count(source) == 0
    assert {row["redelivered"] for row in rows(tmp_path)} == {False}


def test_a_row_has_everything_of_its_message(desk: Desk, queue: Queue, tmp_path: Path) -> None:
    source = queue()
    told = {"content_type": "text/plain", "priority": 3, "headers": {"tenant": "acme", "x-leveret-message-id": 1 << 41}}
    desk.publish(source, [b"\xffbody"], timestamp=1_700_000_000, **told)
    run(begin(desk.options, source, str(tmp_path), SMALL, keep=False), Wanted(1))
    (row,) = rows(tmp_path)
    assert pq.read_schema(archived_files(str(tmp_path))[0]).equals(SCHEMA)
    assert (row["body"], row["size_bytes"], row["queue"], row["vhost"]) == (b"\xffbody", 5, source, "/")
    assert (row["routing_key"], row["exchange"], row["message_id"], row["priority"]) == (source, "", "0", 3)
    assert (row["msg_id"], row["timestamp"].timestamp()) == (1 << 41, 1_700_000_000)
    assert json.loads(row["headers"])["tenant"] == "acme"


def test_the_manifest_says_what_is_whole(desk: Desk, queue: Queue, tmp_path: Path) -> None:
    source = queue()
    desk.publish(source, numbered(15))
    run(begin(desk.options, source, str(tmp_path), SMALL, keep=False), Wanted(15))
    files = listed(tmp_path)
    assert [(file["rows"], file["queue"], file["vhost"]) for file in files] == [(10, source, "/"), (5, source, "/")]
    for file in files:
        content = (tmp_path / file["file"]).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (file["bytes"], file["sha256"])
    assert sorted(path.name for path in tmp_path.glob("*.parquet")) == [file["file"] for file in files]


def test_a_second_run_writes_nothing_over(desk: Desk, queue: Queue, tmp_path: Path) -> None:
    source = queue()
    for _ in range(2):
        desk.publish(source, numbered(3))
        run(begin(desk.options, source, f"file://{tmp_path}", SMALL, keep=False), Wanted(3))
    assert sorted(numbers(tmp_path)) == [0, 0, 1, 1, 2, 2]
    assert len(listed(tmp_path)) == len(list(tmp_path.glob("_manifest-*"))) == 2


def test_no_more_than_is_wanted_leaves_the_queue_and_the_rest_is_as_new(
    desk: Desk, queue: Queue, tmp_path: Path
) -> None:
    source = queue()
    desk.publish(source, numbered(40))
    run(begin(desk.options, source, str(tmp_path), SMALL, keep=False), Wanted(25))
    assert numbers(tmp_path) == list(range(25))
    eventually(lambda: desk.count(source) == 15, "the rest to be there")
    rest = desk.take(source)
    assert [int(body) for _, _, body in rest] == list(range(25, 40))
    assert {method.redelivered for method, _, _ in rest} == {False}


def test_files_are_cut_by_bytes_too(desk: Desk, queue: Queue, tmp_path: Path) -> None:
    source = queue()
    desk.publish(source, [b"x" * 1000] * 9)
    run(begin(desk.options, source, str(tmp_path), FileLimits(bytes=2500), keep=False), Wanted())
    assert [file["rows"] for file in listed(tmp_path)] == [3, 3, 3]
    assert desk.count(source) == 0


def test_who_only_looks_leaves_everything_in_its_order(desk: Desk, queue: Queue, tmp_path: Path) -> None:
    source = queue()
    desk.publish(source, numbered(25))
    run(begin(desk.options, source, str(tmp_path), SMALL, keep=True), Wanted(25))
    assert numbers(tmp_path) == list(range(25))
    eventually(lambda: desk.count(source) == 25, "all to be back")
    assert [int(body) for _, _, body in desk.take(source)] == list(range(25))


def test_a_queue_that_is_empty_makes_no_file(desk: Desk, queue: Queue, tmp_path: Path) -> None:
    assert run(begin(desk.options, queue(), str(tmp_path), SMALL, keep=False), Wanted()) == []
    assert list(tmp_path.iterdir()) == []


def test_a_queue_is_not_taken_to_be_empty_before_one_has_looked(desk: Desk, queue: Queue) -> None:
    """However long ago the last message came: a machine may be slow, and a file may take long to write."""
    source = queue()
    desk.publish(source, numbered(5))
    with Holding(broker_of(desk.options), source, "looks", prefetch=10) as holding:
        holding.quiet_since -= 60
        taken = holding.gather(5, 1 << 20, 60.0, lambda _: holding.is_empty())
    assert [delivery.message[0] for delivery in taken] == numbered(5)


def test_quorum_queues_are_read_too(desk: Desk, queue: Queue, tmp_path: Path) -> None:
    source = queue(**{"x-queue-type": "quorum"})
    desk.publish(source, numbered(15))
    run(begin(desk.options, source, str(tmp_path), SMALL, keep=False), Wanted(15))
    assert numbers(tmp_path) == list(range(15))


def test_who_is_stopped_seals_the_file_in_hand(desk: Desk, queue: Queue, tmp_path: Path) -> None:
    source = queue()
    desk.publish(source, numbered(5))
    archive = begin(desk.options, source, str(tmp_path), SMALL, keep=False)
    run(archive, Wanted(follows=True), lambda: desk.count(source) == 0)
    eventually(lambda: desk.consumers(source) == 0, "it to be gone")
    rest = [int(body) for _, _, body in desk.take(source)]
    assert numbers(tmp_path) + rest == list(range(5)), "what was in hand is in a file, what was on its way is back"


def test_a_disk_that_is_full_costs_nothing(desk: Desk, queue: Queue, tmp_path: Path) -> None:
    source = queue()
    desk.publish(source, [os.urandom(30_000) for _ in range(12)])
    with no_file_larger_than(100_000), pytest.raises(FileError, match=r"too large|No space"):
        run(begin(desk.options, source, str(tmp_path), SMALL, keep=False), Wanted(12))
    assert list(tmp_path.iterdir()) == []
    eventually(lambda: desk.count(source) == 12, "all to be back")


def test_what_is_refused_is_said(desk: Desk, tmp_path: Path) -> None:
    with pytest.raises(AmqpError, match="NOT_FOUND"):
        run(begin(desk.options, "no such queue", str(tmp_path), SMALL, keep=False), Wanted(1))
    with pytest.raises(OptionError, match="option port"):
        begin({"port": "x"}, "q", str(tmp_path), SMALL, keep=False)
    with pytest.raises(AmqpError, match="Connection"):
        run(begin({"port": "1"}, "q", str(tmp_path), SMALL, keep=False), Wanted(1))


def test_where_nothing_is_wanted_nothing_is_fetched(tmp_path: Path) -> None:
    assert run(begin({"port": "1"}, "q", str(tmp_path), SMALL, keep=False), Wanted(0)) == []


# --- the command, and what may be killed ---


FILE_MESSAGES = 50
OUT_MAX = 2 * FILE_MESSAGES
"""How many messages the command has out at a time: its prefetch."""


@contextmanager
def archiving(desk: Desk, queue: str, out: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """`leveret archive` as a process."""
    host, port = desk.address
    place = ("--host", host, "--port", str(port), "--queue", queue, "--out", str(out))
    command = [sys.executable, "-m", "broker", "archive", *place, "--file-messages", str(FILE_MESSAGES), *options]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


@contextmanager
def held(process: subprocess.Popen[str]) -> Iterator[None]:
    """Nothing of a process moves."""
    process.send_signal(signal.SIGSTOP)
    seen = psutil.Process(process.pid)
    eventually(lambda: seen.status() == psutil.STATUS_STOPPED, "it to stand")
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def test_the_command_moves_messages_and_says_how_many(desk: Desk, queue: Queue, tmp_path: Path) -> None:
    source = queue()
    desk.publish(source, numbered(120))
    with archiving(desk, source, tmp_path / "out") as process:
        out, error = process.communicate()
    assert (out, error) == (f"120 messages, 250 bytes, in 3 files in {tmp_path / 'out'}\n", "")
    assert numbers(tmp_path / "out") == list(range(120))
    with archiving(desk, "no such", tmp_path / "none") as process:
        out, error = process.communicate()
    assert (out, error.count("\n"), process.returncode, (tmp_path / "none").exists()) == ("", 1, 1, False)
    assert "404 NOT_FOUND" in error


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_it_in_order(desk: Desk, queue: Queue, tmp_path: Path, number: signal.Signals) -> None:
    source = queue()
    desk.publish(source, numbered(70))
    with archiving(desk, source, tmp_path, "--follow") as process:
        eventually(lambda: len(list(tmp_path.glob("*.parquet"))) == 1, "the first file")
        eventually(lambda: desk.count(source) == 0, "the rest to be in hand")
        process.send_signal(number)
        out, _ = process.communicate()
    assert (process.returncode, out.partition(" ")[0]) == (0, str(len(numbers(tmp_path))))
    rest = [int(body) for _, _, body in desk.take(source)]
    assert numbers(tmp_path) + rest == list(range(70)), "what was in hand is in a file, what was on its way is back"


def test_an_archive_that_is_killed_loses_nothing(desk: Desk, queue: Queue, tmp_path: Path) -> None:
    source = queue()
    desk.publish(source, numbered(2000))
    for kill in range(3):
        with archiving(desk, source, tmp_path) as process:
            eventually(lambda at=5 * kill + 4: len(list(tmp_path.glob("*.parquet"))) > at, "some files")  # type: ignore[misc]
            process.kill()
        eventually(lambda: desk.consumers(source) == 0, "the broker to notice")
    with archiving(desk, source, tmp_path) as process:
        process.communicate()
    assert desk.count(source) == 0
    had = [(int(row["body"]), row["redelivered"]) for row in rows(tmp_path)]
    check_at_least_once(had, 2000, in_flight=3 * FILE_MESSAGES)


def test_a_broker_that_is_killed_is_found_again(fresh_broker: BrokerProcess, tmp_path: Path) -> None:
    """Acknowledgements of the last moments may be lost with it, however many: what they were for comes twice."""
    with desk_at(fresh_broker.address) as desk:
        desk.channel.queue_declare("q", durable=True)
        desk.publish("q", numbered(3000))
        at = desk
    with archiving(at, "q", tmp_path, "--until-empty") as process:
        for kill in range(2):
            eventually(lambda at=10 * kill + 5: len(list(tmp_path.glob("*.parquet"))) > at, "some files")  # type: ignore[misc]
            fresh_broker.kill_and_restart()
        _, error = process.communicate()
    assert process.returncode == 0, error
    with desk_at(fresh_broker.address) as desk:
        assert desk.count("q") == 0
    assert sorted(set(numbers(tmp_path))) == list(range(3000))


def test_of_what_is_acknowledged_on_disk_nothing_comes_twice(fresh_broker: BrokerProcess, tmp_path: Path) -> None:
    """The archive is held until the broker has its acknowledgements on disk; then the broker is killed."""
    with desk_at(fresh_broker.address) as desk:
        desk.channel.queue_declare("q", durable=True)
        desk.publish("q", numbered(1000))
        at = desk
    with archiving(at, "q", tmp_path, "--follow") as process:
        eventually(lambda: len(listed(tmp_path)) > 5, "some files")
        with held(process):
            with desk_at(fresh_broker.address) as desk:
                before, ready = len(numbers(tmp_path)), desk.count("q")
                desk.await_disk()
            fresh_broker.kill_and_restart()
        with desk_at(fresh_broker.address) as desk:
            eventually(lambda: desk.count("q") == 0, "the rest to be in hand")
            process.terminate()
            _, error = process.communicate()
            rest = [int(body) for _, _, body in desk.take("q")]
    assert process.returncode == 0, error
    found = numbers(tmp_path)
    assert sorted({*found, *rest}) == list(range(1000))
    assert len(found) + len(rest) - before <= ready + OUT_MAX + FILE_MESSAGES, "what was out, some of it in a file too"


def test_a_new_manifest_begins_before_one_is_long(
    desk: Desk, queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.archive.MANIFEST_FILES", 2)
    source = queue()
    desk.publish(source, numbered(5))
    run(begin(desk.options, source, str(tmp_path), FileLimits(messages=1), keep=False), Wanted(5))
    assert sorted(numbers(tmp_path)) == list(range(5))
    lengths = [len(json.loads(path.read_text())["files"]) for path in tmp_path.glob("_manifest-*")]
    assert sorted(lengths) == [1, 2, 2]
