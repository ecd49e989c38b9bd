"""Options of the data source: what they mean, what is refused, and that no complaint holds a password."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.project import ROOT
from leveret_spark.option_errors import OptionError
from leveret_spark.options import broker_of, reading_of, writing_of


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({}, ("127.0.0.1", 5672, "/", "guest", "guest", False)),
        ({"host": "broker", "port": "5673"}, ("broker", 5673, "/", "guest", "guest", False)),
        ({"uri": "amqp://broker"}, ("broker", 5672, "/", "guest", "guest", False)),
        ({"uri": "amqp://app:p%40ss@broker:5673/%2f"}, ("broker", 5673, "/", "app", "p@ss", False)),
        ({"uri": "amqps://app@broker/sales"}, ("broker", 5671, "sales", "app", "guest", True)),
    ],
)
def test_a_uri_says_where(options: dict[str, str], place: tuple[str, int, str, str, str, bool]) -> None:
    broker = broker_of(options)
    user, password = broker.login.user, broker.login.password
    assert (broker.host, broker.port, broker.vhost, user, password, broker.tls is not None) == place


def test_a_broker_may_have_several_addresses() -> None:
    broker = broker_of({"host": "a, b:5673,::1,[::1]:5674"})
    assert broker.endpoints == (("a", 5672), ("b", 5673), ("::1", 5672), ("::1", 5674))
    assert str(broker) == "amqp://guest@a:5672,b:5673,::1:5672,::1:5674, virtual host '/'"


def test_names_of_options_are_read_in_any_case() -> None:
    reading = reading_of({"QUEUE": "orders", "maxmessagesperbatch": "7", "PreFetch": "3"})
    assert (reading.queue, reading.max_messages, reading.prefetch) == ("orders", 7, 3)


def test_prefetch_is_two_batches_unless_given() -> None:
    assert reading_of({"queue": "q", "maxMessagesPerBatch": "1000"}).prefetch == 2000
    assert reading_of({"queue": "q", "maxMessagesPerBatch": "1000", "connections": "4"}).prefetch == 500
    assert reading_of({"queue": "q", "maxMessagesPerBatch": "60000"}).prefetch == 65535


def test_a_password_may_be_in_a_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cret\n")
    assert broker_of({"passwordFile": str(secret)}).login.password == "s3cret"
    with pytest.raises(OptionError, match="option passwordFile: No such file"):
        _ = broker_of({"passwordFile": str(tmp_path / "none")}).login.password


@pytest.mark.parametrize(
    ("meaning", "options", "complaint"),
    [
        (broker_of, {"maxMesagesPerBatch": "1"}, "unknown option 'maxmesagesperbatch'"),
        (broker_of, {"port": "amqp"}, "option port is a whole number, not 'amqp'"),
        (broker_of, {"port": "70000"}, "option port is a number from 1 to 65535, not 70000"),
        (broker_of, {"tls": "yes"}, "option tls is one of true, false, not 'yes'"),
        (broker_of, {"uri": "amqp://h", "host": "h"}, "options uri and host exclude each other"),
        (broker_of, {"uri": "http://u:hidden@h"}, "option uri is of the form"),
        (broker_of, {"uri": "amqp://u:hidden@h:port/"}, "option uri cannot be read"),
        (broker_of, {"tls": "true", "tlsCertFile": "c.pem"}, "tlsCertFile and tlsKeyFile go together"),
        (broker_of, {"tlsCaFile": "ca.pem"}, "option tlsCaFile requires TLS, which is not enabled"),
        (broker_of, {"uri": "amqp://u:hidden@h", "tlsCaFile": "ca.pem"}, "TLS, which is not enabled"),
        (broker_of, {"password": "hidden", "passwordFile": "f"}, "password and passwordFile exclude each other"),
        (reading_of, {}, "option queue is missing"),
        (reading_of, {"queue": "q", "ack": "before"}, "option ack is one of never, after, not 'before'"),
        (reading_of, {"queue": "q", "prefetch": "0"}, "option prefetch is a number from 1 to 65535, not 0"),
        (reading_of, {"queue": "q", "maxMessagesPerBatch": "70000"}, "a number from 1 to 65535"),
        (reading_of, {"queue": "q", "maxOffsetsPerTrigger": "0"}, "option maxOffsetsPerTrigger is a number from 1"),
        (reading_of, {"queue": "q", "maxBytesPerBatch": "2147483648"}, "a number from 1 to 1073741824"),
        (broker_of, {"host": "a,:5672"}, "option host has hosts such as broker-1,broker-2:5673, not ':5672'"),
        (reading_of, {"queue": "q", "ack": "after", "partitions": "2"}, "option partitions is not for ack = after"),
        (writing_of, {"hashColumn": "c"}, "option hashColumn goes with superStream, whose partitions it chooses"),
        (
            writing_of,
            {"superStream": "s", "hashColumn": "c", "routingKey": "k"},
            "options superStream and routingKey exclude each other",
        ),
        (
            writing_of,
            {"superStream": "s", "hashColumn": "c", "hashColumns": "c"},
            "options hashColumn and hashColumns exclude each other",
        ),
        (writing_of, {"superStream": "s", "hashColumns": "a,,b"}, "names of columns, each once, not 'a,,b'"),
        (writing_of, {"superStream": "s", "hashColumns": "a, a"}, "names of columns, each once, not 'a, a'"),
        (writing_of, {"onRefused": "ignore"}, "option onRefused is one of fail, count, not 'ignore'"),
    ],
)
def test_what_means_nothing_is_refused(
    meaning: Callable[[dict[str, str]], Any], options: dict[str, str], complaint: str
) -> None:
    with pytest.raises(OptionError, match=complaint) as refused:
        meaning(options)
    assert "hidden" not in str(refused.value)


def test_a_sink_fails_for_what_no_queue_takes_unless_told_to_count() -> None:
    assert (writing_of({}).fails, writing_of({}).mandatory, writing_of({}).persistent) == (True, True, True)
    assert not writing_of({"onRefused": "count"}).fails


def test_a_broker_is_shown_without_its_password() -> None:
    broker = broker_of({"user": "app", "password": "hidden"})
    assert str(broker) == "amqp://app@127.0.0.1:5672, virtual host '/'"
    assert "hidden" not in repr(broker)


def test_every_option_is_documented() -> None:
    from leveret_spark.options import KNOWN, WEB

    pages = {
        (*KNOWN.values(),): ("spark.md", "spark-streams.md"),
        (*WEB, "maxSegmentsPerBatch", "failOnDataLoss"): ("event-log.md",),
    }
    for names, files in pages.items():
        text = "".join((ROOT / "docs" / file).read_text(encoding="utf-8") for file in files)
        assert [name for name in names if f"`{name}`" not in text] == []
