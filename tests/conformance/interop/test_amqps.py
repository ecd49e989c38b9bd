"""Client libraries over TLS, with a password and with a certificate."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator

import aio_pika
import kombu
import pika
import pytest
from pika.credentials import ExternalCredentials
from pika.exceptions import ProbableAuthenticationError

from broker.admin.protocol import ask
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.certificate_authority import Authority

LARGE = bytes(range(256)) * 8192  # 2 MiB


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def secured(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    config = authority.config(verify="peer", login_from="common_name")
    process = BrokerProcess(tmp_path_factory.mktemp("secured") / "data", "--config", str(config))
    process.start()
    ask(process.data_dir, "add_user", {"name": "machine", "password": "never used", "tags": []}, 10)
    ask(process.data_dir, "clear_password", {"name": "machine"}, 10)
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    ask(process.data_dir, "set_permissions", {"vhost": "/", "user": "machine", **everything}, 10)
    yield process
    assert process.stop() == 0


def pika_connection(secured: BrokerProcess, context: ssl.SSLContext, *, external: bool) -> pika.BlockingConnection:
    options = {"credentials": ExternalCredentials()} if external else {}
    host, port = secured.tls_address
    parameters = pika.ConnectionParameters(host, port, ssl_options=pika.SSLOptions(context, "localhost"), **options)
    return pika.BlockingConnection(parameters)


@pytest.mark.parametrize("external", [False, True])
def test_pika(secured: BrokerProcess, authority: Authority, external: bool) -> None:
    certificate = authority.issue("machine", common_name="machine") if external else ()
    connection = pika_connection(secured, authority.client(*certificate), external=external)
    channel = connection.channel()
    channel.confirm_delivery()
    queue = channel.queue_declare("", exclusive=True).method.queue
    for body in (b"", b"small", LARGE):
        channel.basic_publish("", queue, body)
        assert channel.basic_get(queue, auto_ack=True)[2] == body
    connection.close()


def test_pika_with_a_certificate_of_nobody(secured: BrokerProcess, authority: Authority) -> None:
    with pytest.raises(ProbableAuthenticationError):
        pika_connection(secured, authority.client(*authority.issue("x", common_name="x")), external=True)


def test_aio_pika(secured: BrokerProcess, authority: Authority) -> None:
    async def talk() -> bytes:
        host, port = secured.tls_address
        connection = await aio_pika.connect(host=host, port=port, ssl=True, ssl_context=authority.client())
        async with connection:
            channel = await connection.channel()
            queue = await channel.declare_queue(exclusive=True)
            await channel.default_exchange.publish(aio_pika.Message(LARGE), queue.name)
            message = await queue.get(no_ack=True)
            return message.body

    assert asyncio.run(talk()) == LARGE


def test_kombu(secured: BrokerProcess, authority: Authority) -> None:
    options = {"ca_certs": str(authority.ca_file), "server_hostname": "localhost", "cert_reqs": ssl.CERT_REQUIRED}
    host, port = secured.tls_address
    with kombu.Connection(f"amqp://guest:guest@{host}:{port}//", ssl=options, transport="pyamqp") as connection:
        queue = connection.SimpleBuffer("over-tls")
        queue.put({"size": "x" * 200_000})
        message = queue.get(timeout=10)
        message.ack()
        assert message.payload == {"size": "x" * 200_000}
        queue.close()
