"""Dead letters: why they died, and some of them back where they came from while the others stay in their places.

These tests can be pointed at RabbitMQ as those of the protocol can.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from pika import BasicProperties

from harness.clients.wire_client import Address
from harness.waiting import eventually
from leveret_spark.amqp.forwarding import forwarded
from leveret_spark.option_errors import AmqpError
from pipeline.file_target import Target
from pipeline.jobs.job_results import last_run
from pipeline.replay import AT_A_TIME, ConditionError, Replayed, Request, replay
from pipeline.report.page import write_report
from tests.pipeline.inputs.command import at, leveret
from tests.pipeline.inputs.made_up_events import EPOCH, History, export_of
from tests.pipeline.inputs.queue_client import Desk

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

Queue = Callable[..., str]
SECONDS = 90


# --- what x-death says ---


def death(queue: str, reason: str, count: int = 1, time: int = 1_700_000_000, **more: Any) -> dict[str, Any]:
    told = {"queue": queue, "reason": reason, "count": count, "exchange": "orders", "routing-keys": ["new", "cc"]}
    return {**told, "time": {"$timestamp": time}, **more}


def test_groups_say_why_from_where_how_often_and_show_some(spark: SparkSession) -> None:
    from pipeline.dead_letters import dead_letters

    deaths = [death("work", "rejected", 2, time=1_700_000_500), death("retry", "expired", 2)]
    died_first = {"x-first-death-queue": "work", "x-first-death-reason": "rejected"}
    rejected = json.dumps({"x-death": deaths, **died_first})
    expired = json.dumps({"x-death": [death("slow", "expired", **{"routing-keys": []})]})
    rows = [(number, b"n %d" % number, rejected) for number in range(5)]
    rows += [(10, b"\xff\x01", expired), (11, b"x" * 201, expired), (12, "\u00e4\nb".encode(), expired)]
    rows += [(20, b"plain", None), (21, b"odd", '{"x-death":"no list"}')]
    messages = spark.createDataFrame(
        [(tag, bytearray(body), told) for tag, body, told in rows], "delivery_tag bigint, body binary, headers string"
    )
    first, second, third = dead_letters(messages).collect()
    place = (first.death_queue, first.death_exchange, first.death_routing_key)
    assert (first.reason, place) == ("rejected", ("work", "orders", "new"))
    assert (first.messages, first.deaths, first.first_death_reason) == (5, 20, "rejected")
    assert first.last_at.astimezone(UTC) == datetime.fromtimestamp(1_700_000_500, UTC)
    assert first.samples == ["n 0", "n 1", "n 2"]
    assert (second.reason, second.death_routing_key, second.messages) == ("expired", None, 3)
    assert second.samples == ["0xff01", "x" * 200 + "...", "\u00e4\nb"]
    assert (third.reason, third.messages, third.samples) == (None, 2, ["plain", "odd"])


# --- a real queue of dead letters ---


class DeadLetterQueue:
    """A queue whose messages die into another one."""

    def __init__(self, desk: Desk, queue: Queue) -> None:
        self.desk = desk
        self.queue = queue()
        self.work = queue(**{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": self.queue})

    def fill(self, count: int, **properties: Any) -> None:
        """Messages that were rejected, in their order."""
        self.desk.publish(self.work, [b"%d" % number for number in range(count)], **properties)
        for _ in range(count):
            method, _properties, _body = self.desk.channel.basic_get(self.work)
            self.desk.channel.basic_reject(method.delivery_tag, requeue=False)
        eventually(lambda: self.desk.count(self.queue) == count, "all to be dead")

    def replay(self, spark: SparkSession, where: str = "true", **request: Any) -> Replayed:
        done = replay(spark, self.desk.options, self.queue, Request(where, **request))
        eventually(lambda: self.desk.consumers(self.queue) == 0, "it to be gone")
        return done

    def left(self) -> list[int]:
        return [int(body) for _, _, body in self.desk.take(self.queue)]


@pytest.fixture
def dead(desk: Desk, queue: Queue) -> DeadLetterQueue:
    return DeadLetterQueue(desk, queue)


def test_the_selected_go_back_and_the_others_stay_in_order(spark: SparkSession, dead: DeadLetterQueue) -> None:
    dead.fill(20, headers={"tenant": "acme"}, content_type="text/plain")
    chosen = "cast(body as string) in ('3', '4', '11') and reason = 'rejected'"
    done = dead.replay(spark, f"{chosen} and get_json_object(headers, '$.tenant') = 'acme'")
    assert (done.ready, done.looked, done.selected, done.replayed) == (20, 20, {("", dead.work): 3}, 3)
    returned = dead.desk.take(dead.work)
    assert [int(body) for _, _, body in returned] == [3, 4, 11]
    properties = returned[0][1]
    assert (properties.message_id, properties.content_type, properties.delivery_mode) == ("3", "text/plain", 2)
    assert (properties.headers["tenant"], properties.headers["x-death"][0]["queue"]) == ("acme", dead.work)
    assert dead.left() == [number for number in range(20) if number not in (3, 4, 11)]


def test_a_trial_changes_nothing_and_a_limit_holds(spark: SparkSession, dead: DeadLetterQueue, queue: Queue) -> None:
    dead.fill(6)
    trial = leveret("pipeline", "replay", *at(dead.desk.address), "--queue", dead.queue, "--where", "true", "--dry-run")
    assert trial == (0, f"6 of 6 messages looked at, 6 meant\n  6 to exchange (default) with key {dead.work}\n", "")
    other = queue()
    done = dead.replay(spark, "delivery_tag > 1", exchange="", routing_key=other, limit=2, keeps_history=False)
    assert done.selected == {("", other): 2}
    assert [(int(body), properties.headers) for _, properties, body in dead.desk.take(other)] == [(1, None), (2, None)]
    assert dead.left() == [0, 3, 4, 5]


def test_what_is_not_taken_stays(spark: SparkSession, dead: DeadLetterQueue, queue: Queue) -> None:
    dead.fill(4)
    full = queue(**{"x-max-length": 1, "x-overflow": "reject-publish"})
    nowhere = dead.replay(spark, exchange="", routing_key=f"{full}-not-there")
    assert (nowhere.replayed, nowhere.not_taken) == (0, 4)
    refused = dead.replay(spark, exchange="", routing_key=full)
    assert (refused.replayed + refused.not_taken, refused.replayed >= 1) == (4, True)
    there = dead.desk.count(full)
    assert (there, len(dead.left())) == (refused.replayed, 4 - refused.replayed)


def test_straight_back_into_the_queue_where_it_died(
    spark: SparkSession, desk: Desk, queue: Queue, name: Callable[..., str]
) -> None:
    """Not to all the queues that it was published to."""
    dead, exchange, other = DeadLetterQueue(desk, queue), name("fan"), queue()
    desk.channel.exchange_declare(exchange, "fanout", auto_delete=True)
    for each in (dead.work, other):
        desk.channel.queue_bind(each, exchange)
    desk.channel.basic_publish(exchange, "k", b"1", BasicProperties(delivery_mode=2, headers={"CC": [other]}))
    eventually(lambda: desk.count(dead.work) == 1, "it to be there")
    assert len(desk.take(other)) >= 1
    desk.channel.basic_reject(desk.channel.basic_get(dead.work)[0].delivery_tag, requeue=False)
    desk.publish(dead.queue, [b"2"])
    trial = dead.replay(spark, is_trial=True)
    assert (trial.selected, trial.homeless) == ({(exchange, "k"): 1}, 1)
    done = dead.replay(spark, back=True)
    assert (done.replayed, done.homeless) == (1, 1)
    assert [len(desk.take(each)) for each in (dead.work, other)] == [1, 0]
    assert dead.left() == [2]


def test_a_condition_that_means_nothing_is_said_before_anything_is_held(
    spark: SparkSession, dead: DeadLetterQueue, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConditionError, match="no_such_column"):
        replay(spark, dead.desk.options, dead.queue, Request("no_such_column = 1"))
    with pytest.raises(ConditionError, match=r"--where: .*Syntax error"):
        replay(spark, dead.desk.options, dead.queue, Request("reason ="))
    assert capfd.readouterr() == ("", "")
    assert dead.replay(spark) == Replayed()


def test_a_replay_that_is_cut_off_loses_nothing(
    spark: SparkSession, dead: DeadLetterQueue, desk: Desk, queue: Queue
) -> None:
    """Its connections end in the middle, both at once, as they do where its process is killed."""
    count, target = 5 * AT_A_TIME, queue()
    desk.publish(dead.queue, [b"%d" % number for number in range(count)])
    before = connections_to(desk.address)
    options = desk.options | {"reconnectSeconds": "0"}
    request = Request("true", exchange="", routing_key=target)
    with ThreadPoolExecutor(1) as threads:
        done = threads.submit(replay, spark, options, dead.queue, request)
        eventually(lambda: done.done() or desk.count(target) > AT_A_TIME, "some to be replayed", seconds=SECONDS)
        for descriptor in connections_to(desk.address) - before:
            with socket.socket(fileno=os.dup(descriptor)) as connection:
                connection.shutdown(socket.SHUT_RDWR)
        if (failed := done.exception()) is not None:  # or it was quicker
            assert isinstance(failed, AmqpError)
    eventually(lambda: desk.consumers(dead.queue) == 0, "the broker to notice")
    had, left = [int(body) for _, _, body in desk.take(target)], dead.left()
    assert sorted({*had, *left}) == list(range(count))
    assert 0 <= len(had) + len(left) - count <= AT_A_TIME
    assert had == sorted(had)
    assert left == sorted(left)


def connections_to(address: Address) -> set[int]:
    """The descriptors of this process' connections to an address."""
    return {each.fd for each in psutil.Process().net_connections("tcp") if each.raddr == address}


def test_the_commands_say_what_there_is_to_say(dead: DeadLetterQueue, desk: Desk, tmp_path: Path) -> None:
    """Without Spark, which is started only when the queue is there and has something."""
    replays = ("pipeline", "replay", *at(desk.address), "--queue", dead.queue, "--where", "true")
    assert leveret(*replays) == (0, f"nothing is ready in {dead.queue}\n", "")
    code, out, error = leveret("pipeline", "dead-letters", *at(desk.address), "--queue", "no such", "--out", tmp_path)
    assert (code, out, "404 NOT_FOUND" in error, error.count("\n")) == (1, "", True, 1)
    code, _, error = leveret(*replays, "--back", "--exchange", "e")
    assert (code, "--back excludes --exchange and --routing-key" in error) == (2, True)
    code, _, error = leveret(*replays, "--port", "1")
    assert (code, error.endswith(": Connection refused\n")) == (1, True)


def test_a_user_that_is_not_ours_is_left_out() -> None:
    message = (b"b", "", "k", False, 1, *[None] * 11, "somebody", None, None)
    assert forwarded(message, "e", "k", {}, "guest").properties.user_id is None
    assert forwarded(message, "e", "k", {}, "somebody").properties.user_id == "somebody"


def test_the_job_leaves_tables_and_the_messages(spark: SparkSession, dead: DeadLetterQueue, tmp_path: Path) -> None:
    from pipeline.jobs.dead_letter_job import run_dead_letters

    dead.fill(5)
    history = History("n")
    history.start()
    for _ in range(3):
        history.of("deadletter", history.publish(), reason="rejected", exchange="dlx")
    target, parts = Target(str(tmp_path)), export_of(tmp_path / "log", [history])
    found = run_dead_letters(spark, target, dead.desk.options, dead.queue, 100, parts)
    assert (found.ready, found.looked, found.groups[0].messages, found.groups[0].samples) == (5, 5, 5, ["0", "1", "2"])
    run = last_run(target, "dead_letters")
    assert run is not None
    assert run.tables == ["dead_letters", "dead_letter_rates"]
    (rate,) = run.table("dead_letter_rates").to_pylist()
    assert tuple(rate[name] for name in ("vhost", "queue", "reason", "messages")) == ("/", "q", "rejected", 3)
    assert rate["minute"] == EPOCH
    eventually(lambda: dead.desk.count(dead.queue) == 5, "the messages to be back")
    write_report(target)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert [f"<pre>{body}</pre>" in page for body in range(4)] == [True, True, True, False]
    assert "rejected 3." in page
