"""Memory of the real process: bounded by settings, whatever clients leave lying about; and its alarm.

Sizes are far apart: what clients leave is several times what the process may grow by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.wire.methods import BasicAck, ConfirmSelect, ConnectionBlocked, QueueDeclareOk
from harness.brokers.broker_process import BrokerProcess
from harness.clients.amqp_peer import Message
from harness.clients.contents import PERSISTENT
from harness.clients.shorthand import consume, queue_declare
from harness.clients.wire_client import Client
from harness.waiting import eventually

pytestmark = pytest.mark.slow

MEBIBYTE = 1 << 20
BODY = bytes(64 * 1024)
LEFT_BYTES = 96 * MEBIBYTE
MAY_GROW_BYTES = 32 * MEBIBYTE
COUNT = LEFT_BYTES // len(BODY)

CONFIG = """
[limits]
queue_window_bytes = 1048576
output_bytes_max = 262144
held_bytes_max = 262144
[store]
batch_bytes_max = 1048576
backlog_batches_max = 2
[memory]
high_watermark_bytes = {watermark}
check_interval_seconds = 0.05
"""

Start = Callable[..., BrokerProcess]
Dial = Callable[[BrokerProcess], Client]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a broker with small windows."""
    started: list[BrokerProcess] = []

    def start(*, watermark: int = 1 << 40) -> BrokerProcess:
        config = tmp_path / "leveret.toml"
        config.write_text(CONFIG.format(watermark=watermark))
        started.append(BrokerProcess(tmp_path / "data", "--config", str(config)))
        started[-1].start()
        return started[-1]

    yield start
    for process in started:
        process.kill()


@pytest.fixture
def dial() -> Iterator[Dial]:
    clients: list[Client] = []

    def dialled(broker: BrokerProcess, **options: Any) -> Client:
        clients.append(Client.connect(broker.address, **options))
        return clients[-1]

    yield dialled
    for client in clients:
        client.close()


def anonymous_bytes(broker: BrokerProcess) -> int:
    """What the process holds beside mapped files."""
    for line in Path(f"/proc/{broker.pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the kernel does not say")


def deposit(client: Client, queue: str, count: int) -> None:
    """Publish persistent messages and await their confirms."""
    client.ask(ConfirmSelect(False))
    for _ in range(count):
        client.publish(BODY, key=queue, properties=PERSISTENT)
    confirmed = 0
    while confirmed < count:
        confirmed = client.expect(BasicAck).delivery_tag


def test_a_long_queue_lies_on_disk(start: Start, dial: Dial) -> None:
    broker = start()
    client = dial(broker)
    client.ask(queue_declare("q", durable=True))
    before = anonymous_bytes(broker)
    deposit(client, "q", COUNT)
    assert anonymous_bytes(broker) - before < MAY_GROW_BYTES


def test_a_consumer_that_never_reads_costs_its_output_only(start: Start, dial: Dial) -> None:
    broker = start()
    publisher, deaf = dial(broker), dial(broker)
    publisher.ask(queue_declare("q", durable=True))
    before = anonymous_bytes(broker)
    deaf.send(consume("q", "t", no_ack=True))
    deposit(publisher, "q", COUNT)
    assert anonymous_bytes(broker) - before < MAY_GROW_BYTES
    answer = publisher.ask(queue_declare("q", durable=True, passive=True))
    assert isinstance(answer, QueueDeclareOk)
    assert answer.message_count > COUNT / 2


def test_what_is_out_unacknowledged_lies_on_disk(start: Start, dial: Dial) -> None:
    """No limit on unacknowledged messages, and a consumer that reads on and acknowledges nothing."""
    broker = start()
    publisher, consumer = dial(broker), dial(broker)
    publisher.ask(queue_declare("q", durable=True))
    before = anonymous_bytes(broker)
    deposit(publisher, "q", COUNT)
    consumer.ask(consume("q", "t"))
    for _ in range(COUNT):
        assert isinstance(consumer.receive(), Message)
    assert anonymous_bytes(broker) - before < MAY_GROW_BYTES


def test_publishers_wait_while_memory_is_short(start: Start, dial: Dial) -> None:
    """RabbitMQ's memory alarm; here it never clears, because the limit is below what the process needs at rest."""
    broker = start(watermark=1)
    eventually(lambda: "memory alarm raised" in broker.log(), "the alarm")
    publisher, other = dial(broker), dial(broker)
    publisher.ask(queue_declare("q"))
    publisher.publish(b"x", key="q")
    assert publisher.expect(ConnectionBlocked, channel=0).reason == "low on memory"
    assert other.ask(queue_declare("q", passive=True)).message_count == 0
