"""The data source in a real Spark: queues as streams and as tables, rows as messages."""

from __future__ import annotations

import json
import os
import pickle
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.brokers.broker_process import BrokerProcess
from harness.waiting import eventually
from leveret_spark.option_errors import AmqpError, OptionError
from leveret_spark.options import broker_of, writing_of
from tests.pipeline.conftest import ROOT
from tests.pipeline.inputs.copying_job import BATCH, copying
from tests.pipeline.inputs.expected_reads import check_at_least_once
from tests.pipeline.inputs.queue_client import Desk, desk_at
from tests.pipeline.inputs.streams import QUERY_SECONDS, run_to_end

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
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


def sizes(query: StreamingQuery) -> list[int]:
    """Return the sizes of the batches of a query that has ended."""
    return [batch["numInputRows"] for batch in query.recentProgress if batch["numInputRows"]]


def table(spark: SparkSession, desk: Desk, queue: str, **options: Any) -> DataFrame:
    return spark.read.format("amqp").options(**desk.options, queue=queue, **options).load()


def failure(action: Callable[[], Any]) -> str:
    """Return the error of an action that must fail, the traces of Spark's processes included."""
    with pytest.raises(Exception) as failed:
        action()
    return str(failed.value)


# --- streams ---


def test_a_stream_takes_all_there_is_and_acknowledges_the_last_batch_too(
    spark: SparkSession, desk: Desk, queue: Queue, tmp_path: Path
) -> None:
    """Rows without a message id get one by their query, batch, partition and place."""
    source, target = queue(), queue()
    desk.publish(source, [b"%d" % number for number in range(20)], headers={"a": 1.5, "b": [True]}, priority=3)
    desk.publish(source, [b"20", b"21", b"22"], message_id=None)
    messages = stream(spark, desk, source, maxMessagesPerBatch=10, partitions=2)
    query = run_to_end(into(messages, desk, target, tmp_path / "c"))
    assert sizes(query) == [10, 10, 3]
    figures = json.loads(query.recentProgress[1]["sources"][0]["latestOffset"])
    assert figures.keys() == {"ready", "redelivered", "reconnects", "unacknowledged"}
    assert (figures["redelivered"], figures["reconnects"]) == (0, 0)
    assert desk.count(source) == 0  # and nobody holds any: the planner's connection ends with the query
    eventually(lambda: desk.consumers(source) == 0, "no consumer")
    assert desk.count(source) == 0
    found = {int(body): properties for _, properties, body in desk.take(target)}
    assert sorted(found) == list(range(23))
    first = found[0]
    assert (first.headers, first.priority, first.delivery_mode) == ({"a": 1.5, "b": [True]}, 3, 2)
    expected = [*map(str, range(20)), *(f"{query.id}-2-{place}" for place in ("0-0", "1-0", "1-1"))]
    assert [found[number].message_id for number in range(23)] == expected


def test_a_batch_that_failed_comes_again_and_what_came_after_the_start_another_time(
    spark: SparkSession, desk: Desk, queue: Queue, tmp_path: Path
) -> None:
    source = queue()
    desk.publish(source, [b"%d" % number for number in range(6)])
    seen: list[list[Any]] = []
    """The rows of each batch."""

    def fails_once(frame: DataFrame, _: int) -> None:
        seen.append(frame.collect())
        desk.publish(source, [b"6"])
        if len(seen) == 2:
            raise RuntimeError("on purpose")

    messages = stream(spark, desk, source, maxMessagesPerBatch=2)
    writer = messages.writeStream.foreachBatch(fails_once).option("checkpointLocation", str(tmp_path / "c"))
    query = writer.trigger(**NOW)
    assert "on purpose" in failure(lambda: run_to_end(query))
    assert [[int(row.body) for row in rows] for rows in seen] == [[0, 1], [2, 3]]
    eventually(lambda: desk.count(source) == 4 + 2, "what was not committed to be back")
    run_to_end(query)
    again = [row for rows in seen[2:] for row in rows]
    assert sorted(int(row.body) for row in again) == [2, 3, 4, 5, 6, 6]
    assert {row.redelivered for row in again if int(row.body) < 4} == {True}
    eventually(lambda: desk.count(source) == len(seen[2:]), "those that came meanwhile to be left")
    desk.channel.queue_purge(source)
    assert sizes(run_to_end(query)) == [], "nothing to do"


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
    run_to_end(query.trigger(**NOW))
    with desk_at(fresh_broker.address) as desk:
        eventually(lambda: desk.consumers("jobs") == 0, "no consumer")
        assert desk.count("jobs") == 0
    check_at_least_once([(int(row.body), row.redelivered) for row in rows], 500, in_flight=200)


def test_a_trigger_that_never_commits_is_refused(spark: SparkSession, desk: Desk, queue: Queue, tmp_path: Path) -> None:
    source = queue()
    desk.publish(source, [b"x"])
    writer = stream(spark, desk, source).writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c"))
    told = failure(lambda: run_to_end(writer.trigger(once=True)))
    assert "use Trigger.AvailableNow" in told
    assert desk.count(source) == 1


# --- a job that is killed ---

MESSAGES = 4 * BATCH


@pytest.fixture
def scratch_environment(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a process that leaves its temporary files in the test's directory."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    return {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(scratch), "SPARK_LOCAL_DIRS": str(scratch)}


def test_a_job_that_is_killed_is_taken_up_and_loses_nothing(
    spark: SparkSession, desk: Desk, queue: Queue, tmp_path: Path, scratch_environment: dict[str, str]
) -> None:
    """Killed are the driver and Java; Python's workers notice. It says nothing."""
    source, target = queue(), queue()
    desk.publish(source, [b"%d" % number for number in range(MESSAGES)])
    host, port = desk.address
    what = (host, str(port), source, target, str(tmp_path / "c"))
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.pipeline.inputs.copying_job", *what],
        cwd=ROOT,
        env=scratch_environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        eventually(lambda: desk.count(target) >= BATCH, "a batch", seconds=QUERY_SECONDS)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        told = process.communicate()
    assert told == (b"", b"")
    eventually(lambda: desk.consumers(source) == 0, "the broker to notice")
    assert desk.count(source) > 0
    run_to_end(copying(spark, *what))
    assert desk.count(source) == 0
    eventually(lambda: desk.consumers(source) == 0, "the process that planned it to end")
    copies = [(int(body), properties.type == "true") for _, properties, body in desk.take(target)]
    check_at_least_once(copies, MESSAGES, in_flight=BATCH)


# --- tables ---


def test_a_table_shows_every_property_and_leaves_the_messages(spark: SparkSession, desk: Desk, queue: Queue) -> None:
    source = queue()
    properties = {
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
    desk.publish(source, [b"\x00body"], **properties)
    desk.publish(source, [b"bare"], delivery_mode=None, message_id=None)
    frame = table(spark, desk, source)
    full, bare = sorted(frame.collect(), key=lambda row: row.delivery_tag)
    shown = full.asDict()
    assert shown["timestamp"].astimezone(UTC) == datetime.fromtimestamp(1_700_000_000, UTC)
    there = {"body": b"\x00body", "exchange": "", "routing_key": source, "queue": source}
    there |= properties | {"headers": '{"tenant":"acme","n":2}', "timestamp": shown["timestamp"]}
    assert {name: shown[name] for name in there} == there
    assert {bare[name] for name in properties} == {None}
    eventually(lambda: desk.count(source) == 2, "the messages to be back")
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


def test_rows_that_no_queue_takes_fail_the_job_or_are_counted(
    spark: SparkSession, desk: Desk, name: Callable[..., str], caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    import pyarrow.parquet as pq

    from leveret_spark.amqp.publisher import Outcome
    from leveret_spark.queues.sink import Published, QueueStreamWriter

    rows = spark.range(5).selectExpr("cast(id as string) as body")
    options = desk.options | {"routingKey": name("nowhere")}
    writer = rows.write.format("amqp").mode("append").options(**options)
    assert "unroutable, 0 refused: unroutable" in failure(writer.save)
    options["refusedPath"] = str(tmp_path / "refused")
    rows.write.format("amqp").mode("append").options(**options).save()
    kept = pq.read_table(options["refusedPath"]).to_pylist()
    assert {(row["body"], row["routing_key"], row["why"]) for row in kept} == {
        (b"%d" % number, options["routingKey"], "unroutable") for number in range(5)
    }
    tasks = [Published(Outcome(5, 2, 1, ["unroutable a"])), None, Published(Outcome(5))]
    sink = QueueStreamWriter(broker_of(options), writing_of(options), rows.schema)
    sink.commit(tasks, 7)  # in a process of Spark's, which writes it to its standard error
    assert caplog.messages == ["leveret_spark: batch 7: of 11 messages 2 unroutable, 1 refused: unroutable a"]


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ("text string", "a message needs a column 'body'; there are text"),
        ("body bigint, routing_key string", "column 'body' is of type bigint, and must be binary or string"),
        ("body string", "a message needs a column 'routing_key', or option routingKey for all"),
        ("body string, routing_key string, tenant int", "column 'tenant' is not a message property"),
        ("body string, routing_key string, headers map<string,int>", "must be string or map<string,string> or array<"),
    ],
)
def test_columns_that_make_no_message_are_refused(columns: str, complaint: str) -> None:
    from pyspark.sql.types import StructType

    from leveret_spark import AmqpDataSource

    with pytest.raises(OptionError, match=complaint):
        AmqpDataSource({}).writer(StructType.fromDDL(columns), overwrite=False)


@pytest.mark.parametrize(
    ("column", "value", "complaint"),
    [
        ("priority", 300, "300 is not from 0 to 255"),
        ("delivery_mode", -1, "-1 is not from 0 to 255"),
        ("message_id", "x" * 300, "has 300 bytes, more than AMQP's 255"),
        ("routing_key", "ä" * 200, "has 400 bytes, more than AMQP's 255"),
        ("routing_key", None, "is null"),
        ("body", None, "is null"),
        ("expiration", "1 s", "'1 s' is not a number of milliseconds"),
        ("timestamp", -1, "-1 is before 1970"),
        ("headers", "[]", "headers are a JSON object"),
        ("headers", '{"n": 9223372036854775808}', "header 'n' is 9223372036854775808, which has more than 64 bits"),
    ],
)
def test_a_value_that_cannot_be_sent_is_told_with_row_and_column(column: str, value: Any, complaint: str) -> None:
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_schema

    from leveret_spark.queues.rows import Rows, RowShape

    good = {"body": "b", "routing_key": "k"}
    table = pa.RecordBatch.from_pylist(
        [{**good, **({column: None} if column not in good else {})}, good | {column: value}]
    )
    rows = Rows(RowShape(from_arrow_schema(table.schema), writing_of({})), "x")
    with pytest.raises(ValueError, match=re.escape(f"row 1 of the partition, column {column!r}: {complaint}")):
        list(rows.messages(table))


def test_headers_of_every_form_are_the_same_table() -> None:
    from leveret_spark.queues.message_columns import SHOWN
    from leveret_spark.queues.rows import READ

    forms = {form: shown({"tenant": "acme", "raw": b"\xff"}) for form, shown in SHOWN.items()}
    assert READ["headers"](forms["json"]) == {"tenant": "acme", "raw": b"\xff"}
    assert READ["headers"](forms["map"]) == {"tenant": "acme", "raw": '{"$bytes":"/w=="}'}
    as_arrow_gives_them = [{"key": name, "value": value} for name, value in forms["array"]]
    assert READ["headers"](as_arrow_gives_them) == {"tenant": b"acme", "raw": b"\xff"}


def test_messages_of_a_large_batch_are_fetched_by_who_has_the_ticket() -> None:
    from leveret_spark.queues.waiting_messages import WaitingMessages

    waiting = WaitingMessages()
    tickets = [waiting.keep([(b"%d" % number * 100_000,)]) for number in range(2)]
    try:
        for _ in range(2):
            assert [ticket.messages() for ticket in tickets] == [[(b"0" * 100_000,)], [(b"1" * 100_000,)]]
        for stranger in (tickets[0]._replace(secret=bytes(32)), tickets[0]._replace(number=2)):
            with pytest.raises(AmqpError, match="the planner has dropped them"):
                stranger.messages()
        waiting.drop()
        with pytest.raises(AmqpError, match="the planner has dropped them"):
            tickets[0].messages()
    finally:
        waiting.close()
    with pytest.raises(AmqpError, match=r"wait beside the planner at .*: .*refused"):
        tickets[0].messages()


def test_a_task_takes_nothing_from_who_has_not_the_secret() -> None:
    """Another process listens where the planner did, and sends what would be unpickled."""
    from leveret_spark.queues.waiting_messages import MAC_BYTES, WANTED, Ticket

    content = pickle.dumps([(b"planted",)])
    with socket.create_server(("127.0.0.1", 0)) as stranger, ThreadPoolExecutor(1) as tasks:
        asked = tasks.submit(Ticket(stranger.getsockname(), bytes(32), 0).messages)
        connection, _ = stranger.accept()
        with connection:
            connection.sendall(WANTED.pack(len(content)) + bytes(MAC_BYTES) + content)
            with pytest.raises(AmqpError, match="this is not the planner"):
                asked.result(30)


def test_a_task_carries_few_bytes_or_one_message() -> None:
    from leveret_spark.queues.micro_batches import PARTITION_BYTES, MessagesPartition, partitioned

    small, large = (b"x" * (PARTITION_BYTES // 2),), (b"x" * (PARTITION_BYTES + 1),)
    tasks = partitioned("q", [small, small, small, large, small], 1)
    assert [len(task.messages) for task in tasks if isinstance(task, MessagesPartition)] == [2, 1, 1, 1]
    assert [repr(task) for task in partitioned("q", [small, small], 2)] == ["MessagesPartition(1 of q)"] * 2


# --- what a query tells ---


def test_a_wrong_option_is_told_at_once_and_a_password_is_in_no_plan_and_no_failure(
    spark: SparkSession, desk: Desk, queue: Queue, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    source = queue()
    assert "unknown option 'quue'" in failure(lambda: table(spark, desk, source, quue="q"))
    frame = table(spark, desk, source, password="hidden-word")
    told = failure(frame.collect)
    assert "403 ACCESS_REFUSED" in told
    frame.explain(extended=True)
    messages = stream(spark, desk, source)
    desk.publish(source, [b"x"])
    told += failure(lambda: run_to_end(into(messages, desk, source, tmp_path / "c", password="hidden-word")))
    assert "Logical Plan" in told, "the failure of a stream shows its plan"
    assert "hidden-word" not in told + "".join(capfd.readouterr())
