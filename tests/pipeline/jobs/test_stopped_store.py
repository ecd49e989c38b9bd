"""The store of a stopped broker as rows: `leveret inspect`, and the data source `leveret-store`."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pika
import pyarrow.parquet as pq
import pytest

from broker.wire.properties import HEADER_START
from harness.brokers.broker_process import BrokerProcess
from leveret_spark import OptionError
from leveret_spark.amqp.float_headers import Properties
from leveret_spark.amqp.headers import headers_to_json
from leveret_spark.amqp.received_message import PROPERTIES, message_of
from pipeline.stopped_store.stored_values import properties_of
from storage.messages import lmdb_environment
from storage.messages.keys import SEGMENT
from tests.pipeline.inputs.command import Ended, leveret
from tests.pipeline.inputs.queue_client import Desk, desk_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

KEPT = {"delivery_mode": 2}
MANY = 600
"""More than one segment holds."""

FRAME_HEADER_BYTES = 7


def fill(desk: Desk) -> None:
    """Queues of each kind, with messages of each kind."""
    channel = desk.channel
    channel.queue_declare("orders", durable=True)
    channel.queue_declare("many", durable=True)
    channel.queue_declare("quorum", durable=True, arguments={"x-queue-type": "quorum"})
    channel.queue_declare("stream", durable=True, arguments={"x-queue-type": "stream"})
    channel.exchange_declare("late", "x-delayed-message", durable=True, arguments={"x-delayed-type": "fanout"})
    channel.queue_bind("orders", "late", "k")
    desk.publish("many", [b"%d" % number for number in range(MANY)])
    channel.confirm_delivery()

    def publish(key: str, body: bytes, exchange: str = "", **properties: Any) -> None:
        channel.basic_publish(exchange, key, body, pika.BasicProperties(**{**KEPT, **properties}))

    publish("orders", b"first", message_id="m1", headers={"n": 1, "CC": ["quorum"], "BCC": ["many"]})
    publish("orders", b"\xff\x00second", expiration="3600000", timestamp=1_700_000_000)
    publish("stream", b"of a stream")
    publish("k", b"later", "late", headers={"x-delay": 3_600_000})
    assert channel.basic_get("orders")[2] == b"first"
    assert channel.basic_get("quorum")[2] == b"first"


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> BrokerProcess:
    """A broker that has stopped."""
    broker = BrokerProcess(tmp_path_factory.mktemp("filled") / "data")
    broker.start()
    with desk_at(broker.address) as desk:
        fill(desk)
    broker.stop()
    return broker


def inspect(place: Path, *options: str | Path) -> Ended:
    return leveret("inspect", "--data-dir", place, *options)


def lines(place: Path, *options: str) -> list[dict[str, Any]]:
    done = inspect(place, "--format", "json", *options)
    assert (done.code, done.errors) == (0, "")
    return [json.loads(line) for line in done.output.splitlines()]


def hashes(place: Path) -> dict[str, str]:
    files = (path for path in place.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


EPOCH = datetime.fromtimestamp(0, UTC)
TABLE: dict[str, Any] = {
    "text": "é",
    "bytes": b"\xff\x00",
    "number": -(2**40),
    "price": Decimal("-12.5"),
    "half": 1.5,
    "at": EPOCH,
    "nested": {"list": [None, True, {"deep": 1}]},
}


@pytest.mark.parametrize("headers", [None, {}, TABLE])
def test_properties_are_read_as_the_source_amqp_reads_them(headers: dict[str, Any] | None) -> None:
    given = Properties("text/plain", "é", headers, 2, 9, message_id="m", timestamp=1_700_000_000)
    header = pika.frame.Header(1, 0, given).marshal()[FRAME_HEADER_BYTES:-1]
    of_source = message_of(pika.spec.Basic.Deliver(), given, b"")[-len(PROPERTIES) :]
    told = dict(zip(PROPERTIES, properties_of(header), strict=True))
    assert told == dict(zip(PROPERTIES, of_source, strict=True)) | {
        "headers": headers_to_json(headers),
        "timestamp": 1_700_000_000_000_000,
    }


@pytest.mark.parametrize("broken", [b"\x20\x00\x00\x00\x00\x09\x01xT" + b"\xff" * 8, b"\x80\x00"])
def test_properties_that_cannot_be_read_are_an_error(broken: bytes) -> None:
    with pytest.raises(ValueError, match="the properties cannot be read"):
        properties_of(bytes(HEADER_START.size) + broken)


def test_everything_is_listed_and_not_a_byte_is_changed(filled: BrokerProcess) -> None:
    before = hashes(filled.data_dir)
    told = lines(filled.data_dir, "--bodies")
    assert hashes(filled.data_dir) == before
    queues = {row["queue"]: (row["type"], row["messages"]) for row in told if row["kind"] == "queue"}
    classic = {"orders": ("classic", 2), "many": ("classic", MANY + 1)}
    assert queues == {**classic, "quorum": ("quorum", 1), "stream": ("stream", 1), "late": ("delay", 1)}
    assert [(row["source"], row["destination"]) for row in told if row["kind"] == "binding"] == [("late", "orders")]
    assert [row["type"] for row in told if row["kind"] == "exchange"] == ["x-delayed-message"]
    messages = [row for row in told if row["kind"] == "message"]
    assert Counter(row["queue"] for row in messages) == {name: count for name, (_, count) in queues.items()}
    first, second = [row for row in messages if row["queue"] == "orders"]
    assert (first["message_id"], first["delivered"], second["delivered"]) == ("m1", True, False)
    assert json.loads(first["headers"]) == {"n": 1, "CC": ["quorum"]}, "the blind keys are nobody's business"
    assert second["timestamp"] == "2023-11-14 22:13:20+00:00"
    assert second["expires_at"] is not None
    (late,) = [row for row in messages if row["queue"] == "late"]
    assert (late["exchange"], late["routing_key"], late["due_at"] is None) == ("late", "k", False)
    (of_stream,) = [row for row in messages if row["queue"] == "stream"]
    assert (of_stream["position"], of_stream["msg_id"], of_stream["published_at"] is None) == (0, None, False)


def test_a_table_shows_the_beginning(filled: BrokerProcess) -> None:
    done = inspect(filled.data_dir, "--queue", "orders", "--bodies", "--limit", "1")
    assert done.output.startswith("queues: 1\n")
    assert "messages: 1, and there are more (--limit)\n" in done.output
    assert done.output.rstrip().endswith("first")
    missing = inspect(filled.data_dir, "--queue", "none")
    assert missing == (1, "", "leveret: error: no queue 'none' in any virtual host\n")


def test_parquet_goes_to_a_new_place_only(filled: BrokerProcess, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = ("--format", "parquet", "--out", out, "--queue", "many")
    assert inspect(filled.data_dir, *options).output == f"{MANY + 1} messages in {out}\n"
    assert pq.read_table(out / "messages-000001.parquet").num_rows == MANY + 1
    assert pq.read_table(out / "queues.parquet").to_pylist()[0]["messages"] == MANY + 1
    again = inspect(filled.data_dir, *options)
    assert again == (1, "", f"leveret: error: {out}: is not empty; name a new directory\n")


def test_a_running_broker_is_refused_unless_it_makes_a_copy(fresh_broker: BrokerProcess) -> None:
    with desk_at(fresh_broker.address) as desk:
        desk.channel.queue_declare("q", durable=True)
        desk.publish("q", [b"a", b"b"])
        desk.await_disk()
        refused = inspect(fresh_broker.data_dir)
        remedy = "stop it, or look into a copy (--copy, or a backup)"
        assert refused == (1, "", f"leveret: error: a broker runs on {fresh_broker.data_dir}: {remedy}\n")
        copied = lines(fresh_broker.data_dir, "--copy", "--queue", "q")
        assert [row["kind"] for row in copied] == ["queue", "message", "message"]
        desk.publish("q", [b"c"])


def test_damage_is_told_and_not_fatal(filled: BrokerProcess, tmp_path: Path) -> None:
    """In a copy, so that others find the store whole."""
    place = tmp_path / "copy"
    shutil.copytree(filled.data_dir, place, ignore=shutil.ignore_patterns("*.sock"))
    with lmdb_environment.open_environment(place / "messages") as environment, environment.begin(write=True) as txn:
        for key, value in [(bytes(key), bytes(value)) for key, value in txn.cursor()]:
            if key[:1] == SEGMENT and b"second" in value:
                txn.put(key, value.replace(b"second", b"secOnd"))
    messages = [row for row in lines(place, "--queue", "orders", "--bodies") if row["kind"] == "message"]
    assert [(row["body"] is None, row["damage"]) for row in messages] == [
        (False, None),
        (True, "a message fails its checksum"),
    ]
    assert "a message fails its checksum" in inspect(place, "--queue", "orders").output


def test_spark_reads_a_store_in_parts(spark: SparkSession, filled: BrokerProcess) -> None:
    from pipeline.stopped_store.store_source import SCHEMA, LeveretStoreDataSource

    source = LeveretStoreDataSource({"path": str(filled.data_dir), "segmentsPerPartition": "1"})
    assert len(source.reader(source.schema()).partitions()) > 5, "each lane has a part of its own, a long one several"
    frame = spark.read.format("leveret-store").load(str(filled.data_dir))
    assert frame.columns == SCHEMA.names
    rows = frame.select("queue", "position", "body", "delivery_count").collect()
    assert Counter(row.queue for row in rows) == {"orders": 2, "many": MANY + 1, "quorum": 1, "stream": 1, "late": 1}
    assert [row.delivery_count for row in rows if row.queue == "quorum"] == [1]
    bodies = [bytes(row.body) for row in sorted(rows, key=lambda row: row.position) if row.queue == "many"]
    assert bodies == [*(b"%d" % number for number in range(MANY)), b"first"]


def test_a_queue_alone_and_options_that_mean_nothing(filled: BrokerProcess) -> None:
    from pipeline.stopped_store.store_source import LeveretStoreDataSource

    source = LeveretStoreDataSource({"path": str(filled.data_dir), "queue": "orders"})
    reader = source.reader(source.schema())
    rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    assert [row["body"] for row in rows] == [b"first", b"\xff\x00second"]
    nothing = LeveretStoreDataSource({"path": str(filled.data_dir), "queue": "no such"}).reader(source.schema())
    assert [list(nothing.read(part)) for part in nothing.partitions()] == [[]]
    with pytest.raises(OptionError, match="unknown option 'que'"):
        LeveretStoreDataSource({"path": "x", "que": "y"})
    with pytest.raises(OptionError, match="option path is missing"):
        LeveretStoreDataSource({})
