"""The data source in a real Spark: queues as streams and as tables, rows as messages."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.brokers.broker_process import BrokerProcess
from harness.waiting import eventually
from leveret_spark.options import broker_of, writing_of
from tests.pipeline.conftest import ROOT
from tests.pipeline.inputs.copying_job import BATCH, copying
from tests.pipeline.inputs.expected_reads import check_at_least_once
from tests.pipeline.inputs.queue_client import Desk, desk_at
from tests.pipeline.inputs.streams import QUERY_SECONDS, run_to_end

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

pytestmark = [
    pytest.mark.slow,
    # PySpark leaves the sockets of its results to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

Queue = Callable[..., str]
NOW = {"availableNow": True}


def stream(spark: SparkSession, desk: Desk, queue: str, **options: Any) -> DataFrame:
    reader = spark.readStream.format("amqp").options(**desk.options, queue=queue)
    return reader.options(batchWaitMilliseconds=20, **options).load()


def into(frame: DataFrame, desk: Desk, queue: str, checkpoint: Path, **options: Any) -> DataStreamWriter:
    writer = frame.writeStream.format("amqp").options(**desk.options, exchange="", routingKey=queue)
    return writer.options(checkpointLocation=str(checkpoint), **options).trigger(**NOW)


def finished(writer: DataStreamWriter) -> list[int]:
    """Run a query to its end, and return the sizes of its batches."""
    progress = run_to_end(writer).recentProgress
    return [batch["numInputRows"] for batch in progress if batch["numInputRows"]]


def table(spark: SparkSession, desk: Desk, queue: str, **options: Any) -> DataFrame:
    return spark.read.format("amqp").options(**desk.options, queue=queue, **options).load()


def failure(action: Callable[[], Any]) -> str:
    """What an action that must fail says, the traces of Spark's processes included."""
    with pytest.raises(Exception) as failed:
        action()
    return str(failed.value)


# --- streams ---


def test_a_stream_takes_all_there_is_and_acknowledges_the_last_batch_too(
    spark: SparkSession, desk: Desk, queue: Queue, tmp_path: Path
) -> None:
    source, target = queue(), queue()
    desk.publish(source, [b"%d" % number for number in range(25)], headers={"a": 1.5, "b": [True]}, priority=3)
    writer = into(stream(spark, desk, source, maxMessagesPerBatch=10, partitions=3), desk, target, tmp_path / "c")
    assert finished(writer) == [10, 10, 5]
    assert desk.count(source) == 0  # and nobody holds any: the planner's connection ends with the query
    eventually(lambda: desk.consumers(source) == 0, "no consumer")
    assert desk.count(source) == 0
    found = desk.take(target)
    assert sorted(int(body) for _, _, body in found) == list(range(25))
    (_, properties, body) = found[0]
    assert (properties.headers, properties.priority, properties.delivery_mode) == ({"a": 1.5, "b": [True]}, 3, 2)
    assert properties.message_id == body.decode()


def test_what_came_after_the_start_is_for_another_time(
    spark: SparkSession, desk: Desk, queue: Queue, tmp_path: Path
) -> None:
    source, target = queue(), queue()
    checkpoint = tmp_path / "c"
    desk.publish(source, [b"early"] * 3)
    seen: list[int] = []

    def more_and_more(frame: DataFrame, _: int) -> None:
        seen.append(frame.count())
        desk.publish(source, [b"late"])

    messages = stream(spark, desk, source, maxMessagesPerBatch=1)
    query = messages.writeStream.foreachBatch(more_and_more).option("checkpointLocation", str(checkpoint))
    assert finished(query.trigger(**NOW)) == [1, 1, 1]
    assert seen == [1, 1, 1]
    assert eventually(lambda: desk.count(source) == 3, "the late ones to be left")
    desk.channel.queue_purge(source)
    assert finished(query.trigger(**NOW)) == []  # the same checkpoint again, and nothing to do
    assert desk.count(target) == 0


def test_a_batch_that_failed_comes_again(spark: SparkSession, desk: Desk, queue: Queue, tmp_path: Path) -> None:
    source = queue()
    desk.publish(source, [b"%d" % number for number in range(6)])
    rows: list[Any] = []

    def fails_once(frame: DataFrame, batch: int) -> None:
        found = frame.collect()
        if batch == 1 and not rows[2:]:
            rows.extend([None])
            raise RuntimeError("on purpose")
        rows.extend(found)

    messages = stream(spark, desk, source, maxMessagesPerBatch=2)
    query = messages.writeStream.foreachBatch(fails_once).option("checkpointLocation", str(tmp_path / "c"))
    assert "on purpose" in failure(lambda: finished(query.trigger(**NOW)))
    assert eventually(lambda: desk.count(source) == 4, "what was not committed to be back")
    finished(query.trigger(**NOW))
    assert desk.count(source) == 0
    before, after = rows[:2], rows[3:]
    assert [int(row.body) for row in before] == [0, 1]
    assert sorted(int(row.body) for row in after) == [2, 3, 4, 5]
    assert {row.redelivered for row in after if int(row.body) < 4} == {True}


def test_a_stream_outlives_a_broker_that_is_killed(
    spark: SparkSession, fresh_broker: BrokerProcess, tmp_path: Path
) -> None:
    rows: list[Any] = []

    def takes_notes(frame: DataFrame, batch: int) -> None:
        rows.extend(frame.select("body", "redelivered").collect())
        if batch == 1:
            with desk_at(fresh_broker.address) as desk:
                desk.await_disk()  # with the marks of what was delivered
            fresh_broker.kill_and_restart()

    with desk_at(fresh_broker.address) as desk:
        desk.channel.queue_declare("jobs", durable=True)
        desk.publish("jobs", [b"%d" % number for number in range(500)])
        messages = stream(spark, desk, "jobs", maxMessagesPerBatch=100, connections=2)
    query = messages.writeStream.foreachBatch(takes_notes).option("checkpointLocation", str(tmp_path / "c"))
    finished(query.trigger(**NOW))
    with desk_at(fresh_broker.address) as desk:
        eventually(lambda: desk.consumers("jobs") == 0, "no consumer")
        assert desk.count("jobs") == 0
    check_at_least_once([(int(row.body), row.redelivered) for row in rows], 500, in_flight=200)


def test_a_trigger_that_never_commits_is_refused(spark: SparkSession, desk: Desk, queue: Queue, tmp_path: Path) -> None:
    source = queue()
    desk.publish(source, [b"x"])
    writer = stream(spark, desk, source).writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c"))
    told = failure(lambda: finished(writer.trigger(once=True)))
    assert "use Trigger.AvailableNow" in told
    assert desk.count(source) == 1


# --- a job that is killed ---


def without_java(directory: Path) -> str:
    """A PATH with everything of this machine's but Java."""
    directory.mkdir()
    for folder in ("/bin", "/usr/bin"):
        for program in Path(folder).iterdir():
            link = directory / program.name
            if not program.name.startswith("java") and not link.is_symlink():
                link.symlink_to(program)
    return str(directory)


@pytest.fixture
def bare_environment(tmp_path: Path) -> dict[str, str]:
    """Of a process that finds no Java, and leaves its rubbish where the test's goes."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    clean = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "SPARK_HOME")}
    own = {"PYTHONPATH": str(ROOT), "TMPDIR": str(scratch), "SPARK_LOCAL_DIRS": str(scratch)}
    return clean | own | {"PATH": without_java(tmp_path / "bin")}


def test_a_job_that_is_killed_is_taken_up_and_loses_nothing(
    spark: SparkSession, desk: Desk, queue: Queue, tmp_path: Path, bare_environment: dict[str, str]
) -> None:
    """Killed are the driver and Java; Python's workers notice. It runs on the packaged Java, and says nothing."""
    source, target = queue(), queue()
    desk.publish(source, [b"%d" % number for number in range(3000)])
    host, port = desk.address
    what = (host, str(port), source, target, str(tmp_path / "c"))
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.pipeline.inputs.copying_job", *what],
        cwd=ROOT,
        env=bare_environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        eventually(lambda: desk.count(target) >= 2 * BATCH, "some batches", seconds=QUERY_SECONDS)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        told = process.communicate()
    assert told == (b"", b"")
    eventually(lambda: desk.consumers(source) == 0, "the broker to notice")
    assert desk.count(source) > 0
    finished(copying(spark, *what))
    assert desk.count(source) == 0
    eventually(lambda: desk.consumers(source) == 0, "the process that planned it to end")
    copies = [(int(body), properties.type == "true") for _, properties, body in desk.take(target)]
    check_at_least_once(copies, 3000, in_flight=BATCH)


# --- tables ---


def test_a_table_shows_every_property_and_leaves_the_messages(spark: SparkSession, desk: Desk, queue: Queue) -> None:
    source = queue()
    told = {
        "content_type": "text/plain",
        "content_encoding": "utf-8",
        "headers": {"tenant": "acme", "n": 2},
        "delivery_mode": 2,
        "priority": 7,
        "correlation_id": "c",
        "reply_to": "r",
        "expiration": "600000",
        "message_id": "m",
        "timestamp": 1_700_000_000,
        "type": "t",
        "user_id": "guest",
        "app_id": "a",
        "cluster_id": "k",
    }
    desk.publish(source, [b"\x00body"], **told)
    desk.publish(source, [b"bare"], delivery_mode=None, message_id=None)
    frame = table(spark, desk, source)
    full, bare = sorted(frame.collect(), key=lambda row: row.delivery_tag)
    shown = full.asDict()
    assert (bytes(shown["body"]), shown["exchange"], shown["routing_key"], shown["queue"]) == (
        b"\x00body",
        "",
        source,
        source,
    )
    assert shown["timestamp"].astimezone(UTC) == datetime.fromtimestamp(1_700_000_000, UTC)
    assert shown["headers"] == '{"tenant":"acme","n":2}'
    assert {name: shown[name] for name in told if name not in ("timestamp", "headers")} == {
        name: value for name, value in told.items() if name not in ("timestamp", "headers")
    }
    assert {bare[name] for name in told} == {None}
    tenants = frame.selectExpr("get_json_object(headers, '$.tenant') as tenant").collect()
    assert {row.tenant for row in tenants} == {"acme", None}
    assert eventually(lambda: desk.count(source) == 2, "the messages to be back")
    assert {method.redelivered for method, _, _ in desk.take(source)} == {True}


def test_a_table_may_take_what_it_reads(spark: SparkSession, desk: Desk, queue: Queue) -> None:
    source = queue()
    desk.publish(source, [b"%d" % number for number in range(30)])
    frame = table(spark, desk, source, ack="after", connections=2, maxMessagesPerBatch=20)
    assert len({int(row.body) for row in frame.collect()}) == 20
    assert eventually(lambda: desk.count(source) == 10, "ten to be left")
    assert len(table(spark, desk, source, ack="after").collect()) == 10
    assert table(spark, desk, source, ack="after").collect() == []
    assert table(spark, desk, source).collect() == []


# --- sinks ---


def test_rows_become_messages(spark: SparkSession, desk: Desk, queue: Queue) -> None:
    target = queue()
    rows = spark.createDataFrame(
        [
            ("one", target, {"tenant": "acme"}, "m-1", datetime(2026, 11, 21, 12, tzinfo=UTC)),
            ("two", target, None, None, None),
        ],
        "body string, routing_key string, headers map<string,string>, message_id string, timestamp timestamp",
    )
    rows.coalesce(1).write.format("amqp").options(**desk.options, persistent="false").mode("append").save()
    first, second = sorted(desk.take(target), key=lambda message: message[2])
    assert (first[2], first[1].headers, first[1].message_id) == (b"one", {"tenant": "acme"}, "m-1")
    assert (first[1].timestamp, first[1].delivery_mode) == (1_795_262_400, 1)
    assert (second[1].headers, second[1].timestamp) == (None, None)
    assert second[1].message_id.endswith("-0-1")  # partition, row


def test_ids_of_a_stream_are_those_of_its_batch(spark: SparkSession, desk: Desk, queue: Queue, tmp_path: Path) -> None:
    target = queue()
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.txt").write_text("a\nb\n")
    frame = spark.readStream.text(str(tmp_path / "in")).withColumnRenamed("value", "body")
    query = run_to_end(into(frame, desk, target, tmp_path / "c"))
    assert {properties.message_id for _, properties, _ in desk.take(target)} == {
        f"{query.id}-0-0-0",
        f"{query.id}-0-0-1",
    }


def test_rows_that_no_queue_takes_fail_the_job_or_are_counted(
    spark: SparkSession, desk: Desk, name: Callable[..., str], caplog: pytest.LogCaptureFixture
) -> None:
    from leveret_spark.amqp.publisher import Outcome
    from leveret_spark.queues.sink import Published, QueueStreamWriter

    rows = spark.range(5).selectExpr("cast(id as string) as body")
    options = desk.options | {"routingKey": name("nowhere")}
    writer = rows.write.format("amqp").mode("append").options(**options)
    assert "unroutable, 0 refused: unroutable" in failure(writer.save)
    writer.option("onRefused", "count").save()
    tasks = [Published(Outcome(5, 2, 1, ["unroutable a"])), None, Published(Outcome(5))]
    sink = QueueStreamWriter(broker_of(options), writing_of(options), rows.schema)
    sink.commit(tasks, 7)  # in a process of Spark's, which writes it to its standard error
    assert caplog.messages == ["leveret_spark: batch 7: of 11 messages 2 unroutable, 1 refused: unroutable a"]


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ("cast(id as string) as text", "a message needs a column 'body'"),
        ("id as body, 'k' as routing_key", "column 'body' is of type bigint, and must be binary or string"),
        ("'x' as body", "a message needs a column 'routing_key', or option routingKey for all"),
        ("'x' as body, 'k' as routing_key, 1 as tenant", "column 'tenant' means nothing in a message"),
    ],
)
def test_columns_that_make_no_message_are_refused(
    spark: SparkSession, desk: Desk, columns: str, complaint: str
) -> None:
    frame = spark.range(1).selectExpr(*columns.split(", "))
    assert complaint in failure(frame.write.format("amqp").options(**desk.options).mode("append").save)


# --- what a query tells ---


def test_a_wrong_option_is_told_when_a_source_is_loaded(spark: SparkSession, desk: Desk) -> None:
    reader = spark.read.format("amqp").options(**desk.options)
    assert "unknown option 'quue'" in failure(reader.option("quue", "q").load)


def test_a_password_is_in_no_plan_and_no_failure(
    spark: SparkSession, desk: Desk, queue: Queue, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    source = queue()
    frame = table(spark, desk, source, password="hidden-word")
    told = failure(frame.collect)
    assert "403 ACCESS_REFUSED" in told
    frame.explain(extended=True)
    messages = stream(spark, desk, source)
    desk.publish(source, [b"x"])
    told += failure(lambda: finished(into(messages, desk, source, tmp_path / "c", password="hidden-word")))
    assert "Logical Plan" in told, "the failure of a stream shows its plan"
    assert "hidden-word" not in told + "".join(capfd.readouterr())
