"""What exchanges of RabbitMQ's plugin types still know after an end of either kind, and on another broker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from broker.admin.protocol import ask
from harness.brokers.broker_process import BrokerProcess
from harness.clients.contents import PERSISTENT
from harness.clients.queue_steps import deposit, drain
from harness.clients.shorthand import exchange_declare, queue_bind, queue_declare
from harness.clients.wire_client import Client

Dial = Callable[[], Client]

pytestmark = pytest.mark.slow

KEYS = [f"key{number}" for number in range(30)]
RING = {"c": "3", "a": "1", "b": "2"}


def make_spreads(client: Client) -> None:
    """An exchange of each hashing type with the queues c, a and b, bound in this order."""
    for exchange, kind in (("ring", "x-consistent-hash"), ("modulus", "x-modulus-hash")):
        client.ask(exchange_declare(exchange, kind, durable=True))
        for queue, key in RING.items():
            client.ask(queue_declare(queue, durable=True))
            client.ask(queue_bind(queue, exchange, key))


def places(client: Client, exchange: str) -> str:
    """The queue each key goes to, `-` for none."""
    for key in KEYS:
        deposit(client, key.encode(), exchange=exchange, key=key)
    found = {body.decode(): queue for queue in RING for body in drain(client, queue)}
    return "".join(found.get(key, "-") for key in KEYS)


def test_each_key_goes_where_it_went(dial: Dial, reborn: Dial) -> None:
    """The places of both are RabbitMQ 3.10.8's; its ring is in another order after a restart, ours is not."""
    client = dial()
    make_spreads(client)
    before = places(client, "ring"), places(client, "modulus")
    assert before == ("cabaaacbcbbccaabbbacccaaccccac", "cbbbcbbccccbccaccbbacacbbcbcba")
    client = reborn()
    assert (places(client, "ring"), places(client, "modulus")) == before


def test_definitions_carry_the_ring(dial: Dial, fresh_broker: BrokerProcess, tmp_path: Path) -> None:
    """Exported and imported elsewhere, each key has its queue again."""
    client = dial()
    make_spreads(client)
    before = places(client, "ring"), places(client, "modulus")
    exported = ask(fresh_broker.data_dir, "export_definitions", {}, 20.0)
    other = BrokerProcess(tmp_path / "other")
    other.start()
    ask(other.data_dir, "import_definitions", {"definitions": exported}, 20.0)
    away = Client.connect(other.address)
    assert (places(away, "ring"), places(away, "modulus")) == before
    away.close()
    other.stop()


def test_memory_is_gone_and_what_it_gave_is_not(dial: Dial, reborn: Dial) -> None:
    """RabbitMQ 3.10.8, stopped and started: an exchange remembers nothing of its former life."""
    client = dial()
    client.ask(exchange_declare("history", "x-recent-history", durable=True))
    deposit(client, b"1", b"2", exchange="history", key="k", properties=PERSISTENT)
    for queue in ("early", "late"):
        client.ask(queue_declare(queue, durable=True))
    client.ask(queue_bind("early", "history"))
    deposit(client, b"3", exchange="history", key="k", properties=PERSISTENT)  # confirmed, and so is what came before
    client = reborn()
    client.ask(queue_bind("late", "history"))
    assert drain(client, "late") == []
    assert drain(client, "early") == [b"1", b"2", b"3"]
    deposit(client, b"4", exchange="history", key="k", properties=PERSISTENT)
    client.ask(queue_bind("late", "history", "again"))
    assert drain(client, "late") == [b"4", b"4"]
