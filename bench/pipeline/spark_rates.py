"""Rates of Spark's source and sink: `python -m bench.pipeline.spark_rates`, with a broker of its own.

`--target HOST:PORT` takes another broker. Messages are persistent, of 1 KiB, with two headers. The source's rate is
that of the batches after the first, which warms Spark up: from one trigger to the next, acknowledgements included. The
sink's is that of the second of two writes. "Without Spark" is what the planner's process could give at most: the same
connections, batches that are gathered, acknowledged and thrown away. A stream is read as a table, a second time, in as
many parts as there are connections. `--idle-streams 100` measures instead what the planner of a query takes to look at
the ends of as many streams: at first, while nothing comes, and after a message to each.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pika

from harness.brokers.broker_process import BrokerProcess
from harness.project import ROOT
from leveret_spark.amqp.publisher import Outgoing, Publisher
from leveret_spark.data_source import AmqpDataSource
from leveret_spark.options import broker_of, reading_of, writing_of
from leveret_spark.queues.batch_intake import Intake
from leveret_spark.queues.message_columns import Columns
from leveret_spark.streams.stream_source import StreamsReader
from pipeline.spark.spark_session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUEUE, STREAM = "bench-spark", "bench-spark-stream"
BODY = b"x" * 1024
CONNECTIONS = (1, 2, 4)
Options = Mapping[str, str]


class Rate(NamedTuple):
    """Messages a second, and what one takes of this process' CPU time in microseconds."""

    messages: float
    cpu_us: float


def measured(messages: int, work: Callable[[], None]) -> Rate:
    """The rate of some work in this process."""
    begun, used = time.monotonic(), time.process_time()
    work()
    return Rate(messages / (time.monotonic() - begun), 1e6 * (time.process_time() - used) / messages)


def prepare(options: Options, messages: int, queue: str = QUEUE) -> Rate:
    """Declare a queue, or stream, and fill it with `messages` messages."""
    parameters = pika.ConnectionParameters(options["host"], int(options["port"]))
    connection = pika.BlockingConnection(parameters)
    connection.channel().queue_delete(queue)
    arguments = {"x-queue-type": "stream" if queue == STREAM else "classic"}
    connection.channel().queue_declare(queue, durable=True, arguments=arguments)
    connection.close()
    properties = pika.BasicProperties(delivery_mode=2, headers={"tenant": "acme", "attempt": 1})
    with Publisher(broker_of(options), writing_of(options)) as publisher:

        def publish() -> None:
            for _ in range(messages):
                publisher.publish(Outgoing("", queue, properties, BODY))
            publisher.finish()

        return measured(max(messages, 1), publish)


def reading(options: Options, connections: int, messages: int) -> dict[str, str]:
    """The options of a source that takes five batches for `messages` messages."""
    given = {"queue": QUEUE, "connections": connections, "maxMessagesPerBatch": messages // 5}
    return {**options, **{name: str(value) for name, value in given.items()}}


def intake_rate(options: Options, connections: int, messages: int) -> Rate:
    """Messages without Spark."""
    prepare(options, messages)
    given = reading(options, connections, messages)
    intake = Intake(broker_of(given), reading_of(given), messages)

    def read() -> None:
        while batch := intake.gather():
            intake.settle(batch.marks)

    try:
        intake.open()
        return measured(messages, read)
    finally:
        intake.close()


def source_rate(spark: SparkSession, options: Options, connections: int, messages: int) -> float:
    """Messages a second into a sink that throws them away."""
    prepare(options, messages)
    frame = spark.readStream.format("amqp").options(**reading(options, connections, messages)).load()
    with tempfile.TemporaryDirectory(prefix="bench-spark-") as checkpoint:
        writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
    batches = [progress for progress in query.recentProgress if progress["numInputRows"]][1:]
    milliseconds = sum(progress["durationMs"]["triggerExecution"] for progress in batches)
    return 1000 * sum(progress["numInputRows"] for progress in batches) / milliseconds


def stream_rate(spark: SparkSession, options: Options, connections: int, messages: int) -> float:
    """Messages a second of a stream into a sink that throws them away."""
    prepare(options, messages, STREAM)
    reader = spark.read.format("amqp").options(**options, queue=STREAM, partitions=connections)
    writer = reader.load().write.format("noop").mode("overwrite")
    writer.save()
    begun = time.monotonic()
    writer.save()
    return messages / (time.monotonic() - begun)


def sink_rate(spark: SparkSession, options: Options, connections: int, messages: int) -> float:
    """Rows a second, with a task for each connection."""
    prepare(options, 0)
    rows = spark.range(0, messages, 1, connections).selectExpr("repeat('x', 1024) as body")
    writer = rows.write.format("amqp").options(**options, routingKey=QUEUE).mode("append")
    writer.save()
    begun = time.monotonic()
    writer.save()
    return messages / (time.monotonic() - begun)


def idle_streams(options: Options, count: int) -> dict[str, float]:
    """Milliseconds of looks at the ends of streams, without Spark: the first, the median of idle ones, all moved.

    `cpu` is the time of the planner's processor in each: it says the same on a busy machine.
    """
    names = [f"{STREAM}-{number}" for number in range(count)]
    connection = pika.BlockingConnection(pika.ConnectionParameters(options["host"], int(options["port"])))
    channel = connection.channel()
    channel.confirm_delivery()

    def publish() -> None:
        for name in names:
            channel.basic_publish("", name, BODY)

    for name in names:
        channel.queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})
    publish()
    given = {**options, "queues": ",".join(names), "startingOffsets": "earliest", "batchWaitMilliseconds": "0"}
    reader = AmqpDataSource(given).streamReader(Columns("json").schema)
    assert isinstance(reader, StreamsReader)
    start = reader.initialOffset()
    looks = []
    for look in range(12):
        if look == 11:
            publish()
        begun, used = time.monotonic(), time.process_time()
        start = reader.latestOffset(start)
        looks.append((1000 * (time.monotonic() - begun), 1000 * (time.process_time() - used)))
    reader.stop()
    for name in names:
        channel.queue_delete(name)
    connection.close()
    found: dict[str, float] = {}
    for name, times in zip(("", "_cpu"), zip(*looks, strict=True), strict=True):
        idle = statistics.median(times[1:11])
        found |= {f"first{name}": times[0], f"idle{name}": idle, f"all_moved{name}": times[11]}
    return found


@contextmanager
def target(named: str | None) -> Iterator[Options]:
    """Start a broker, or take the one named."""
    if named:
        host, _, port = named.rpartition(":")
        yield {"host": host, "port": port}
        return
    with tempfile.TemporaryDirectory(prefix="bench-spark-") as directory:
        process = BrokerProcess(Path(directory) / "data", check_invariants=False)
        process.start()
        try:
            yield {"host": process.address[0], "port": str(process.address[1])}
        finally:
            process.stop()


def main() -> None:
    """Print a line of JSON for each number of connections."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", help="HOST:PORT of another broker")
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--cores", type=int, default=4, help="of Spark")
    parser.add_argument("--idle-streams", type=int, help="look at the ends of as many streams")
    arguments = parser.parse_args()
    if arguments.idle_streams:
        with target(arguments.target) as options:
            looks = idle_streams(options, arguments.idle_streams)
        print(json.dumps({"streams": arguments.idle_streams} | {name: round(ms, 1) for name, ms in looks.items()}))
        return
    os.environ["PYTHONPATH"] = str(ROOT)
    with target(arguments.target) as options, session("bench", cores=arguments.cores) as spark:
        source_rate(spark, options, 1, 1000)  # what is said once: classes, workers
        for connections in CONNECTIONS:
            publisher = prepare(options, arguments.messages)
            intake = intake_rate(options, connections, arguments.messages)
            rates = {
                "source": source_rate(spark, options, connections, arguments.messages),
                "stream": stream_rate(spark, options, connections, arguments.messages),
                "sink": sink_rate(spark, options, connections, arguments.messages),
                "read_without_spark": intake.messages,
                "read_cpu_us": intake.cpu_us,
                "publish_without_spark": publisher.messages,
                "publish_cpu_us": publisher.cpu_us,
            }
            print(json.dumps({"connections": connections} | {name: round(rate) for name, rate in rates.items()}))
            sys.stdout.flush()


if __name__ == "__main__":
    main()
