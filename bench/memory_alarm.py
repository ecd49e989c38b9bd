"""Time until publishers go on when the memory alarm's messages have been purged, and memory that the process gives
back."""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path

from bench.load import generator
from bench.load.measured_broker import Target, Wanted, environment, mib, report
from broker.wire.methods import BasicAck, ConfirmSelect, ConnectionBlocked, QueuePurge
from harness.brokers.broker_process import BrokerProcess
from harness.clients.amqp_peer import publish_frames
from harness.clients.shorthand import queue_declare
from harness.clients.wire_client import Client
from harness.process_figures import own_memory

MIB = 1 << 20
LIMIT_BYTES, BODY_BYTES = 1200 * MIB, 1024
MESSAGES = 8000
"""Messages of each queue, just below its window: queues are filled until the alarm is raised."""
WINDOW = 250
"""Publishes before their confirms are awaited: fewer than fill the sockets of a client that waits."""

PATIENCE_SECONDS, LATER_SECONDS = 120.0, 75.0


def memory_alarm(wanted: Wanted) -> None:
    """Queues are filled until the alarm is raised and a publisher waits; then all of them are purged."""
    with tempfile.TemporaryDirectory(prefix="leveret-bench-") as directory:
        config = Path(directory) / "config.toml"
        base = 100 if wanted.part >= 0.1 else 80
        config.write_text(f"[memory]\nhigh_watermark_bytes = {base * MIB + int(LIMIT_BYTES * wanted.part)}\n")
        data = Path(directory) / "data"
        options = "--config", str(config)
        broker = BrokerProcess(
            data, *options, environment=environment(), own_group=True, loaded_anew=True, check_invariants=False
        )
        broker.start()
        try:
            _measure(Target(broker.address, broker.pid), LATER_SECONDS * wanted.part)
        finally:
            broker.kill()


def _measure(target: Target, later_seconds: float) -> None:
    operator, publisher = generator.connect(target), generator.connect(target)
    empty = own_memory(target.pid)
    queues = _fill(target)
    full, began = own_memory(target.pid), time.monotonic()
    publisher.ask(ConfirmSelect(False))
    publisher.publish(b"x", key="0")
    for number in range(queues):
        operator.ask(QueuePurge(str(number), False))
    purged = time.monotonic() - began
    while not isinstance(publisher.receive(timeout=PATIENCE_SECONDS), BasicAck):
        pass
    goes_on, after = time.monotonic() - began, own_memory(target.pid)
    threading.Event().wait(later_seconds)
    report(
        "memory alarm",
        queues=queues,
        rss_anon_mib_empty=mib(empty),
        rss_anon_mib_full=mib(full),
        purged_s=round(purged, 2),
        publisher_goes_on_s=round(goes_on, 2),
        rss_anon_mib_after=mib(after),
        rss_anon_mib_later=mib(own_memory(target.pid)),
    )


def _fill(target: Target) -> int:
    """Fill one queue after the other until the client is told to wait; how many there are."""
    client, queues, published = Client.connect(target.address, timeout=PATIENCE_SECONDS), 0, 0
    client.ask(ConfirmSelect(False))
    while True:
        client.ask(queue_declare(str(queues)))
        some = publish_frames(bytes(BODY_BYTES), key=str(queues)) * WINDOW
        queues += 1
        while published < queues * MESSAGES:
            client.send_raw(some)
            published += WINDOW
            while not (isinstance(item := client.receive(), BasicAck) and item.delivery_tag == published):
                if isinstance(item, ConnectionBlocked):
                    return queues
