"""Somebody sets the machine's clock while the broker runs, by hours, forward and back (promise I9)."""

from __future__ import annotations

import signal
from contextlib import closing
from pathlib import Path

import pytest

from broker.wire.methods import BasicDeliver, ConnectionTuneOk
from broker.wire.properties import BasicProperties
from harness.brokers.broker_process import BrokerProcess
from harness.clients.contents import with_headers
from harness.clients.queue_steps import deposit, drain, ready
from harness.clients.shorthand import ack, consume, exchange_declare, prefetch, queue_bind, queue_declare
from harness.clients.wire_client import Client
from harness.waiting import DEADLINE_SECONDS, eventually
from tests.planted.planted_catalogue import with_jumps, with_mistake

HEARTBEAT = ConnectionTuneOk(2047, 131072, 1)
SHORT = BasicProperties(expiration="100")


@pytest.mark.slow
def test_nothing_is_early_or_late_and_nobody_is_dropped(tmp_path: Path) -> None:
    jumping = BrokerProcess(tmp_path / "data", environment=with_jumps())
    jumping.start()
    set_the_clock_under(jumping)
    assert jumping.stop() == 0, jumping.log()
    assert "not acknowledged" not in jumping.log()
    assert "heartbeat" not in jumping.log()


@pytest.mark.slow
def test_a_broker_that_goes_by_the_wall_clock_is_found_out(tmp_path: Path) -> None:
    process = BrokerProcess(tmp_path / "data", environment=with_jumps(with_mistake("time by the wall clock")))
    process.start()
    with pytest.raises(AssertionError):
        set_the_clock_under(process, patience=3.0)
    process.kill()


def set_the_clock_under(jumping: BrokerProcess, patience: float = DEADLINE_SECONDS) -> None:
    """A client has messages that live or wait for an hour, and some for a moment, while the clock jumps.

    Forward 5 hours on SIGRTMIN and back 12 on SIGRTMAX.
    """
    with closing(Client.connect(jumping.address, tune=HEARTBEAT, channels=(1, 2))) as client:
        client.ask(queue_declare("hour", arguments={"x-message-ttl": 3_600_000, "x-expires": 3_600_000}))
        client.ask(exchange_declare("later", "x-delayed-message", arguments={"x-delayed-type": "fanout"}))
        for queue in ("short", "held", "due"):
            client.ask(queue_declare(queue))
        client.ask(queue_bind("due", "later"))
        deposit(client, b"stays", b"stays too", key="hour")
        deposit(client, b"hour", exchange="later", key="", properties=with_headers({"x-delay": 3_600_000}))
        deposit(client, b"held", key="held")
        client.ask(prefetch(1), channel=2)
        client.ask(consume("held", "t"), channel=2)
        client.expect_message(BasicDeliver, channel=2)
        for number in (signal.SIGRTMIN, signal.SIGRTMAX):
            for body in (b"before", b"after"):
                if body == b"after":
                    jumping.signal(number)
                deposit(client, body, key="short", properties=SHORT)
                deposit(client, body, exchange="later", key="", properties=with_headers({"x-delay": 100}))
            client.await_heartbeats(client.peer.heartbeats + 2)
            eventually(lambda: not ready(client, "short"), "short lives to end", seconds=patience)
            eventually(lambda: ready(client, "due") == 2, "what is due to come", seconds=patience)
            assert drain(client, "due") == [b"before", b"after"]
            assert ready(client, "hour") == 2
        client.send(ack(1), channel=2)
        assert drain(client, "hour") == [b"stays", b"stays too"]
