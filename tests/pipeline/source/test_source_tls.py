"""Reading and publishing over TLS, with certificates from files that options name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pika
import pytest
from pika import BasicProperties

from harness.brokers.broker_process import BrokerProcess
from harness.brokers.certificate_authority import Authority
from leveret_spark.amqp.publisher import Outgoing, Publisher
from leveret_spark.option_errors import AmqpError, OptionError
from leveret_spark.options import broker_of, reading_of, writing_of
from leveret_spark.queues.batch_intake import Intake, ready_messages


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def secured(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path_factory.mktemp("secured") / "data", "--config", str(authority.config()))
    process.start()
    parameters = pika.ConnectionParameters(
        *process.tls_address, ssl_options=pika.SSLOptions(authority.client(), "localhost")
    )
    connection = pika.BlockingConnection(parameters)
    connection.channel().queue_declare("jobs", durable=True)
    connection.close()
    yield process
    assert process.stop() == 0


def options(secured: BrokerProcess, **more: str) -> dict[str, Any]:
    return {"host": "localhost", "port": str(secured.tls_address[1]), "tls": "true", "queue": "jobs", **more}


def test_messages_go_there_and_back(secured: BrokerProcess, authority: Authority) -> None:
    given = options(secured, tlsCaFile=str(authority.ca_file))
    with Publisher(broker_of(given), writing_of(given)) as publisher:
        publisher.publish(Outgoing("", "jobs", BasicProperties(delivery_mode=2), b"x" * 300_000))
        assert publisher.finish().confirmed == 1
    intake = Intake(broker_of(given), reading_of(given), 1)
    try:
        intake.open()
        batch = intake.gather()
        assert batch is not None
        assert [len(message[0]) for message in batch.messages] == [300_000]
        intake.settle(batch.marks)
    finally:
        intake.close()
    assert ready_messages(broker_of(given), "jobs") == 0


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({}, "CERTIFICATE_VERIFY_FAILED"),
        ({"tlsCaFile": "/dev/null"}, "the files of options tlsCaFile"),
        ({"tls": "false"}, "the port does not speak AMQP, or only over TLS"),
        ({"port": "plain"}, "the port does not speak TLS"),
    ],
    ids=["nobody vouches for it", "no certificate", "TLS where none is asked for", "no TLS where it is"],
)
def test_what_is_wrong_is_said(secured: BrokerProcess, given: dict[str, str], complaint: str) -> None:
    if "port" in given:
        given = {"port": str(secured.address[1])}
    with pytest.raises((AmqpError, OptionError), match=complaint):
        ready_messages(broker_of(options(secured, **given)), "jobs")
