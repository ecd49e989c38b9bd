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
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest

from harness.brokers.broker_process import BrokerProcess
from harness.brokers.full_disk import no_file_larger_than
from harness.project import ROOT
from harness.waiting import eventually
from leveret_spark.amqp.unacked_consumer import UnackedConsumer
from leveret_spark.option_errors import AmqpError, OptionError
from leveret_spark.options import broker_of
from pipeline.archive import SCHEMA, FileError, FileLimits, Progress, Wanted, archived_files, begin, ready
from tests.pipeline.inputs.command import at, leveret
from tests.pipeline.inputs.expected_reads import check_at_least_once
from tests.pipeline.inputs.queue_client import Desk, desk_at

pytestmark = pytest.mark.slow

Queue = Callable[..., str]

SMALL = FileLimits(messages=10)


def archived(
    desk: Desk, queue: str, out: Path | str, wanted: Wanted, limits: FileLimits = SMALL, *, keep: bool = False
) -> list[Progress]:
    """Archive what is wanted; what was said of each file."""
    progress: list[Progress] = []
    begin(desk.options, queue, str(out), limits, keep=keep).run(
        wanted, is_stopped=lambda: False, on_file=progress.append
    )
    return progress


def rows(out: Path) -> list[dict[str, Any]]:
    """Return the rows of the listed files, in their order."""
    return [row for file in archived_files(str(out)) for row in pq.read_table(file).to_pylist()]


def numbers(out: Path) -> list[int]:
    return [int(row["body"]) for row in rows(out)]


def listed(out: Path) -> list[dict[str, Any]]:
    return [file for path in sorted(out.glob("_manifest-*")) for file in json.loads(path.read_text())["files"]]


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


class Case(NamedTuple):
    """Messages in a queue, what of them is wanted; how many each file has, and what is left in the queue."""

    bodies: list[bytes]
    wanted: Wanted
    files: list[int]
    left: list[bytes]
    limits: FileLimits = SMALL
    keep: bool = False
    kind: str = "classic"


LARGE = [b"%d" % number * 1000 for number in range(9)]
CASES = {
    "everything": Case(numbered(25), Wanted(25), [10, 10, 5], []),
    "everything of a quorum queue": Case(numbered(25), Wanted(25), [10, 10, 5], [], kind="quorum"),
    "the rest is as new": Case(numbered(40), Wanted(25), [10, 10, 5], numbered(40)[25:]),
    "files are cut by bytes": Case(LARGE, Wanted(), [3, 3, 3], [], FileLimits(bytes=2500)),
    "looking leaves all in its order": Case(numbered(25), Wanted(25), [10, 10, 5], numbered(25), keep=True),
    "nothing is ready": Case([], Wanted(), [], []),
    "nothing is wanted": Case(numbered(2), Wanted(0), [], numbered(2)),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_is_wanted_goes_into_files_and_leaves_the_queue(
    desk: Desk, queue: Queue, tmp_path: Path, case: Case
) -> None:
    source = queue(**{"x-queue-type": case.kind})
    desk.publish(source, case.bodies)
    assert ready(desk.options, source) == len(case.bodies)
    progress = archived(desk, source, tmp_path, case.wanted, case.limits, keep=case.keep)
    assert [(each.messages, each.files) for each in progress] == [
        (messages, files) for files, messages in enumerate(accumulate(case.files), 1)
    ]
    assert [row["body"] for row in rows(tmp_path)] == case.bodies[: sum(case.files)]
    assert {row["redelivered"] for row in rows(tmp_path)} <= {False}
    files = listed(tmp_path)
    assert [(file["rows"], file["queue"], file["vhost"]) for file in files] == [(n, source, "/") for n in case.files]
    for file in files:
        content = (tmp_path / file["file"]).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (file["bytes"], file["sha256"])
    assert sorted(path.name for path in tmp_path.glob("*.parquet")) == [file["file"] for file in files]
    eventually(lambda: desk.count(source) == len(case.left), "the rest to be there")
    rest = desk.take(source)
    assert [body for _, _, body in rest] == case.left
    assert {method.redelivered for method, _, _ in rest} <= {case.keep}


def test_a_row_has_everything_of_its_message(desk: Desk, queue: Queue, tmp_path: Path) -> None:
    source = queue()
    sent = {"content_type": "text/plain", "priority": 3, "headers": {"tenant": "acme", "x-leveret-message-id": 1 << 41}}
    desk.publish(source, [b"\xffbody"], timestamp=1_700_000_000, **sent)
    archived(desk, source, tmp_path, Wanted(1))
    (row,) = rows(tmp_path)
    assert pq.read_schema(archived_files(str(tmp_path))[0]).equals(SCHEMA)
    assert (row["body"], row["size_bytes"], row["queue"], row["vhost"]) == (b"\xffbody", 5, source, "/")
    assert (row["routing_key"], row["exchange"], row["message_id"], row["priority"]) == (source, "", "0", 3)
    assert (row["msg_id"], row["timestamp"].timestamp()) == (1 << 41, 1_700_000_000)
    assert json.loads(row["headers"])["tenant"] == "acme"


def test_a_second_run_writes_nothing_over(desk: Desk, queue: Queue, tmp_path: Path) -> None:
    source = queue()
    for _ in range(2):
        desk.publish(source, numbered(3))
        archived(desk, source, f"file://{tmp_path}", Wanted(3))
    assert sorted(numbers(tmp_path)) == [0, 0, 1, 1, 2, 2]
    assert len(listed(tmp_path)) == len(list(tmp_path.glob("_manifest-*"))) == 2


def test_a_queue_is_not_taken_to_be_empty_before_one_has_looked(desk: Desk, queue: Queue) -> None:
    """However long ago the last message came: a machine may be slow, and a file may take long to write."""
    source = queue()
    desk.publish(source, numbered(5))
    with UnackedConsumer(broker_of(desk.options), source, "looks", prefetch=10) as consumer:
        consumer.quiet_since -= 60
        taken = consumer.gather(5, 1 << 20, 60.0, lambda _: consumer.is_empty())
    assert [delivery.message[0] for delivery in taken] == numbered(5)


def test_a_disk_that_is_full_costs_nothing(desk: Desk, queue: Queue, tmp_path: Path) -> None:
    source = queue()
    desk.publish(source, [os.urandom(30_000) for _ in range(12)])
    with no_file_larger_than(100_000), pytest.raises(FileError, match=r"too large|No space"):
        archived(desk, source, tmp_path, Wanted(12))
    assert list(tmp_path.iterdir()) == []
    eventually(lambda: desk.count(source) == 12, "all to be back")


def test_what_is_refused_is_said(desk: Desk, tmp_path: Path) -> None:
    with pytest.raises(AmqpError, match="NOT_FOUND"):
        archived(desk, "no such queue", tmp_path, Wanted(1))
    with pytest.raises(OptionError, match="option port"):
        begin({"port": "x"}, "q", str(tmp_path), SMALL, keep=False)
    with pytest.raises(AmqpError, match="Connection"):
        archived(desk._replace(address=("127.0.0.1", 1)), "q", tmp_path, Wanted(1))


# --- the command, and what may be killed ---


FILE_MESSAGES = 50


def archive(desk: Desk, queue: str, out: Path) -> list[str]:
    """The command."""
    place = ["--queue", queue, "--out", str(out), "--file-messages", str(FILE_MESSAGES)]
    return ["archive", *at(desk.address), *place]


@contextmanager
def archiving(desk: Desk, queue: str, out: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """`leveret archive` as a process."""
    command = [sys.executable, "-m", "broker", *archive(desk, queue, out), *options]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_the_command_moves_messages_and_says_how_many(desk: Desk, queue: Queue, tmp_path: Path) -> None:
    source = queue()
    desk.publish(source, numbered(120))
    done = leveret(*archive(desk, source, tmp_path / "out"))
    assert done == (0, f"120 messages, 250 bytes, in 3 files in {tmp_path / 'out'}\n", "")
    assert numbers(tmp_path / "out") == list(range(120))
    code, out, error = leveret(*archive(desk, "no such", tmp_path / "none"))
    assert (out, error.count("\n"), code, (tmp_path / "none").exists()) == ("", 1, 1, False)
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
    for kill in range(2):
        with archiving(desk, source, tmp_path) as process:
            eventually(lambda at=5 * kill + 4: len(list(tmp_path.glob("*.parquet"))) > at, "some files")  # type: ignore[misc]
            process.kill()
        eventually(lambda: desk.consumers(source) == 0, "the broker to notice")
    assert leveret(*archive(desk, source, tmp_path), "--until-empty").code == 0
    assert desk.count(source) == 0
    had = [(int(row["body"]), row["redelivered"]) for row in rows(tmp_path)]
    check_at_least_once(had, 2000, in_flight=2 * FILE_MESSAGES)


def test_an_archive_outlives_a_broker_that_is_killed(fresh_broker: BrokerProcess, tmp_path: Path) -> None:
    with desk_at(fresh_broker.address) as desk:
        desk.channel.queue_declare("q", durable=True)
        desk.publish("q", numbered(1000))
    with archiving(desk, "q", tmp_path, "--follow") as process:
        eventually(lambda: len(listed(tmp_path)) > 5, "some files")
        fresh_broker.kill_and_restart()
        with desk_at(fresh_broker.address) as desk:
            eventually(lambda: desk.consumers("q") and desk.count("q") == 0, "the rest to be in hand")
            process.terminate()
            _, error = process.communicate()
            rest = [int(body) for _, _, body in desk.take("q")]
    assert process.returncode == 0, error
    assert sorted({*numbers(tmp_path), *rest}) == list(range(1000))


def test_a_new_manifest_begins_before_one_is_long(
    desk: Desk, queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.archive.MANIFEST_FILES", 2)
    source = queue()
    desk.publish(source, numbered(5))
    archived(desk, source, tmp_path, Wanted(5), FileLimits(messages=1))
    assert sorted(numbers(tmp_path)) == list(range(5))
    lengths = [len(json.loads(path.read_text())["files"]) for path in tmp_path.glob("_manifest-*")]
    assert sorted(lengths) == [1, 2, 2]
