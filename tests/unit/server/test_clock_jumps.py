"""Somebody sets the machine's clock while the broker runs, by hours, forward and back (promise I9)."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.wire.methods import BasicDeliver, ConnectionTuneOk
from broker.wire.properties import BasicProperties
from harness.brokers.broker_process import BrokerProcess
from harness.clients.contents import with_headers
from harness.clients.queue_steps import deposit, drain
from harness.clients.shorthand import ack, consume, exchange_declare, prefetch, queue_bind, queue_declare
from harness.clients.wire_client import Client
from harness.waiting import eventually
from tests.planted.planted_catalogue import with_jumps, with_mistake

HEARTBEAT = ConnectionTuneOk(2047, 131072, 1)
SHORT = BasicProperties(expiration="100")


@pytest.fixture
def jumping(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker whose wall clock goes forward 5 hours on SIGUSR1 and back 12 on SIGUSR2."""
    process = BrokerProcess(tmp_path / "data", environment=with_jumps())
    process.start()
    yield process
    assert process.stop() == 0, process.log()


@pytest.mark.slow
def test_nothing_expires_early_or_late_and_nobody_is_dropped(jumping: BrokerProcess) -> None:
    client = Client.connect(jumping.address, tune=HEARTBEAT, channels=(1, 2))
    set_the_clock_under(client, jumping)
    client.close()
    assert "not acknowledged" not in jumping.log()
    assert "heartbeat" not in jumping.log()


@pytest.mark.slow
def test_a_broker_that_goes_by_the_wall_clock_is_found_out(tmp_path: Path) -> None:
    process = BrokerProcess(tmp_path / "data", environment=with_jumps(with_mistake("time by the wall clock")))
    process.start()
    client = Client.connect(process.address, tune=HEARTBEAT, channels=(1, 2))
    with pytest.raises(AssertionError):
        set_the_clock_under(client, process)
    client.close()
    process.kill()


def set_the_clock_under(client: Client, jumping: BrokerProcess) -> None:
    """A client has messages that live for an hour, and some that live for a moment, while the clock jumps."""
    client.ask(queue_declare("hour", arguments={"x-message-ttl": 3_600_000, "x-expires": 3_600_000}))
    client.ask(queue_declare("short"))
    client.ask(queue_declare("held"))
    deposit(client, b"stays", b"stays too", key="hour")
    deposit(client, b"held", key="held")
    client.ask(prefetch(1), channel=2)
    client.ask(consume("held", "t"), channel=2)
    client.expect_message(BasicDeliver, channel=2)
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        deposit(client, b"goes", key="short", properties=SHORT)
        jumping.signal(number)
        deposit(client, b"goes too", key="short", properties=SHORT)
        client.await_heartbeats(client.peer.heartbeats + 2)
        eventually(lambda: not client.ask(queue_declare("short", passive=True)).message_count, "short lives to end")
        assert client.ask(queue_declare("hour", passive=True)).message_count == 2
    client.send(ack(1), channel=2)
    assert drain(client, "hour") == [b"stays", b"stays too"]


@pytest.mark.slow
def test_delayed_messages_are_neither_early_nor_late(jumping: BrokerProcess) -> None:
    client = Client.connect(jumping.address)
    client.ask(exchange_declare("later", "x-delayed-message", arguments={"x-delayed-type": "fanout"}))
    client.ask(queue_declare("q"))
    client.ask(queue_bind("q", "later"))
    deposit(client, b"hour", key="", exchange="later", properties=with_headers({"x-delay": 3_600_000}))
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        deposit(client, b"before", key="", exchange="later", properties=with_headers({"x-delay": 100}))
        jumping.signal(number)
        deposit(client, b"after", key="", exchange="later", properties=with_headers({"x-delay": 100}))
        eventually(lambda: client.ask(queue_declare("q", passive=True)).message_count == 2, "what is due to come")
        assert drain(client, "q") == [b"before", b"after"]
    client.close()
