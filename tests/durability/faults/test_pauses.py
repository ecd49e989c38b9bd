"""A process that is stopped and goes on: SIGSTOP here; elsewhere a machine that is moved, or a laptop's lid."""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack, closing

import pytest

from broker.wire.methods import ConnectionTuneOk, QueueDeclareOk
from harness.brokers.broker_process import BrokerProcess
from harness.clients.shorthand import queue_declare
from harness.clients.wire_client import Client
from harness.waiting import pass_by
from tests.planted.planted_catalogue import with_mistake

pytestmark = pytest.mark.slow

HEARTBEATS = (1, 1, 2, 2)
STOPPED_SECONDS = 5.0
"""Longer than two of the longest interval."""

FRESH_SECONDS = 1.0
"""Nobody may have been silent for longer when the process is stopped."""


def clients_that_stay(broker: BrokerProcess) -> int:
    """Stop the process; how many clients that say something meanwhile are answered when it goes on."""
    with ExitStack() as opened:
        while True:
            began = time.monotonic()
            clients = [
                opened.enter_context(
                    closing(Client.connect(broker.address, tune=ConnectionTuneOk(2047, 131072, heartbeat)))
                )
                for heartbeat in HEARTBEATS
            ]
            broker.signal(signal.SIGSTOP)
            if time.monotonic() - began < FRESH_SECONDS:
                break
            broker.signal(signal.SIGCONT)
        try:
            pass_by(time.monotonic() + STOPPED_SECONDS)
            for client in clients:
                client.send(queue_declare("q"))
        finally:
            broker.signal(signal.SIGCONT)
        return sum(is_answered(client) for client in clients)


def is_answered(client: Client) -> bool:
    try:
        return isinstance(client.expect(QueueDeclareOk), QueueDeclareOk)
    except (EOFError, ConnectionError):
        return False


def test_nobody_is_cut_who_spoke_while_the_process_was_stopped(fresh_broker: BrokerProcess) -> None:
    assert clients_that_stay(fresh_broker) == len(HEARTBEATS)


def test_a_broker_that_takes_a_pause_for_silence_is_found_out(fresh_broker: BrokerProcess) -> None:
    fresh_broker.stop()
    fresh_broker.environment = with_mistake("pause taken for silence")
    fresh_broker.start()
    assert any(clients_that_stay(fresh_broker) < len(HEARTBEATS) for _ in range(10)), "all were read before the look"
