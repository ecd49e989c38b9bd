"""Memory of the real process: bounded by settings, whatever clients leave lying about; and its alarm.

Sizes are far apart: what clients leave is several times what the process may grow by.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from broker.wire.methods import BasicAck, ConfirmSelect, ConnectionBlocked
from harness.brokers.broker_process import BrokerProcess
from harness.clients.amqp_peer import Message
from harness.clients.contents import PERSISTENT
from harness.clients.shorthand import consume, queue_declare
from harness.clients.wire_client import Client
from harness.waiting import eventually
from tests.unit.conftest import Configured, Dial

pytestmark = pytest.mark.slow

WAITING_CLIENTS, WAITING_MESSAGES = 80, 20

MEBIBYTE = 1 << 20
BODY = bytes(64 * 1024)
LEFT_BYTES = 96 * MEBIBYTE
MAY_GROW_BYTES = 32 * MEBIBYTE
COUNT = LEFT_BYTES // len(BODY)

SMALL_WINDOWS = """
[limits]
queue_window_bytes = 1048576
output_bytes_max = 262144
held_bytes_max = 262144
[store]
batch_bytes_max = 1048576
backlog_batches_max = 2
[memory]
high_watermark_bytes = {}
check_interval_seconds = 0.05
"""


def anonymous_bytes(broker: BrokerProcess) -> int:
    """Return bytes of the process beside mapped files."""
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


def test_what_clients_leave_lies_on_disk(configured: Configured, dial: Dial) -> None:
    """A long queue, a consumer that never reads, and one that reads on and acknowledges nothing, without a limit."""
    broker = configured(SMALL_WINDOWS.format(1 << 40))
    publisher, deaf = dial(broker), dial(broker)
    publisher.ask(queue_declare("q", durable=True))
    before = anonymous_bytes(broker)
    deaf.send(consume("q", "t", no_ack=True))
    deposit(publisher, "q", COUNT)
    assert anonymous_bytes(broker) - before < MAY_GROW_BYTES
    left = publisher.ask(queue_declare("q", durable=True, passive=True)).message_count
    assert left > COUNT / 2
    deaf.close()
    consumer = dial(broker)
    consumer.ask(consume("q", "t"))
    for _ in range(left):
        assert isinstance(consumer.receive(), Message)
    assert anonymous_bytes(broker) - before < MAY_GROW_BYTES


def test_publishers_wait_while_memory_is_short(configured: Configured, dial: Dial) -> None:
    """RabbitMQ's memory alarm; here it never clears, because the limit is below what the process needs at rest."""
    broker = configured(SMALL_WINDOWS.format(1))
    eventually(lambda: "memory alarm raised" in broker.log(), "the alarm")
    publisher, other = dial(broker), dial(broker)
    publisher.ask(queue_declare("q"))
    publisher.publish(b"x", key="q")
    assert publisher.expect(ConnectionBlocked, channel=0).reason == "low on memory"
    assert other.ask(queue_declare("q", passive=True)).message_count == 0


def test_what_waits_for_the_end_of_an_alarm_does_not_keep_it_up(configured: Configured, dial: Dial) -> None:
    """Neither what is held of each client, nor what it has sent behind that and is not handled."""
    broker = configured(SMALL_WINDOWS.format(1))
    eventually(lambda: "memory alarm raised" in broker.log(), "the alarm")
    clients = [dial(broker) for _ in range(WAITING_CLIENTS)]
    before = anonymous_bytes(broker)
    for client in clients:
        client.socket.settimeout(0.05)
        with suppress(TimeoutError):
            for _ in range(WAITING_MESSAGES):
                client.publish(BODY, key="nowhere")
    eventually(lambda: anonymous_bytes(broker) - before > WAITING_CLIENTS * MEBIBYTE // 3, "what they have sent")
    broker.tell("set_vm_memory_high_watermark", bytes=before + 8 * MEBIBYTE)
    eventually(lambda: "memory alarm cleared" in broker.log(), "the end of the alarm")
