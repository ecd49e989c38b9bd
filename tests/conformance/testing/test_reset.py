"""A broker that is empty again, in the same process; and one that takes no orders."""

from __future__ import annotations

import threading
from contextlib import closing, suppress
from pathlib import Path

import amqp
import pytest

from broker.admin.protocol import AdministrationError
from broker.wire.methods import ConnectionClose, ConnectionOpen
from broker.wire.properties import BasicProperties
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.http_broker import ask, web_address, web_broker
from harness.clients.amqp_peer import UnexpectedFrame
from harness.clients.queue_steps import deposit, fetch
from harness.clients.shorthand import exchange_declare, queue_declare
from harness.clients.wire_client import Address, Client
from tests.conformance import Connect
from tests.conformance.testing.conftest import Orders

PERSISTENT = BasicProperties(delivery_mode=2)
EMPTY = {
    "queues": 0,
    "exchanges": 7,
    "bindings": 0,
    "connections": 0,
    "channels": 0,
    "consumers": 0,
    "vhosts": 1,
    "users": 1,
    "permissions": 1,
    "policies": 0,
    "parameters": 0,
}


def test_nothing_is_left_of_what_was_there(order: Orders, client: Client, process: BrokerProcess) -> None:
    client.ask(queue_declare("durable", durable=True))
    client.ask(queue_declare("transient"))
    client.ask(exchange_declare("ex", "fanout", durable=True))
    deposit(client, *[b"x"] * 100, key="durable")
    fetch(client, "durable", 3)
    order.api("vhosts/other", method="PUT", status=201)
    order.api("users/ann", method="PUT", status=201, password="x", tags="")
    order.api("policies/%2F/p", method="PUT", status=201, pattern=".*", definition={"max-length": 5})
    order.api("users/guest", method="PUT", status=204, password="guest", tags="administrator,monitoring")
    boot = process.tell("status")["boot"]
    order("clock/step", seconds=3600)
    order("reset")
    counts = {what: len(order.api(what)) for what in EMPTY}
    assert counts == EMPTY
    assert order.api("whoami")["tags"] == ["administrator"]
    assert process.tell("status")["boot"] == boot
    assert isinstance(client.receive(channel=0), ConnectionClose)


def test_the_name_of_a_queue_is_free_at_once(order: Orders, connect: Connect) -> None:
    for length in range(5):
        client = connect()
        client.ask(queue_declare("same", durable=True, arguments={"x-max-length": length + 1}))
        deposit(client, *[b"x"] * 10, key="same")
        assert order.api("queues/%2F/same")["messages"] == length + 1
        order("reset")


def test_a_restart_finds_what_was_made_since(order: Orders, connect: Connect, process: BrokerProcess) -> None:
    """Killed: the reset was on disk, and so is what came after it."""
    client = connect()
    client.ask(queue_declare("before", durable=True))
    deposit(client, b"x", key="before", properties=PERSISTENT)
    order("reset")
    client = connect()
    client.ask(queue_declare("after", durable=True))
    deposit(client, b"y", key="after", properties=PERSISTENT)
    process.kill_and_restart()
    found = Orders(web_address(process)).api("queues?columns=name,messages")
    assert found == [{"name": "after", "messages": 1}]


def test_definitions_of_the_settings_are_there_again(tmp_path: Path) -> None:
    (tmp_path / "definitions.json").write_text('{"queues": [{"name": "wanted", "vhost": "/", "durable": true}]}')
    settings = f'[testing]\nenabled = true\n[definitions]\nfile = "{tmp_path / "definitions.json"}"\n'
    process = web_broker(tmp_path, settings)
    process.start()
    try:
        order = Orders(web_address(process))
        order.api("queues/%2F/wanted", method="DELETE", status=204)
        order("reset")
        assert [queue["name"] for queue in order.api("queues")] == ["wanted"]
    finally:
        process.stop()


def test_without_the_setting_every_order_is_refused(tmp_path: Path) -> None:
    process = web_broker(tmp_path)
    process.start()
    try:
        order = Orders(web_address(process))
        assert "start it with `enabled = true` in section [testing]" in order("reset", status=403)
        with pytest.raises(AdministrationError, match=r"section \[testing\]"):
            process.tell("testing", order="reset")
        assert "testing" not in process.tell("status")
        assert "testing" not in order.api("overview")
        assert "[testing]" not in process.log()
    finally:
        process.stop()


def test_with_it_log_status_and_overview_say_so(order: Orders, process: BrokerProcess) -> None:
    assert "[warning] [testing] is enabled" in process.log()
    assert "[testing] is enabled" in process.tell("status")["testing"]
    assert order.api("overview")["testing"] is True


def test_orders_are_for_administrators(order: Orders) -> None:
    order.api("users/mon", method="PUT", status=201, password="x", tags="monitoring")
    assert ask(order.address, "/api/testing/reset", method="POST", user="mon:x").status == 401
    assert ask(order.address, "/api/testing/reset", method="POST", user=None).status == 401


def test_the_socket_takes_the_same_orders(order: Orders, process: BrokerProcess) -> None:
    stopped = process.tell("testing", order="clock/stop")
    assert stopped["stopped"]
    with pytest.raises(AdministrationError, match="there is no request clock/turn; known: status, clock"):
        process.tell("testing", order="clock/turn")


def test_a_client_that_comes_during_a_reset_is_served_after_it(broker: Address, order: Orders) -> None:
    """One that declares a queue all the time, and connects again: it is never refused, and the queue is soon there
    again after each reset."""
    over = threading.Event()
    refused: list[Exception] = []

    def declare() -> None:
        while not over.is_set():
            with closing(Client(broker)) as client, suppress(EOFError, OSError, UnexpectedFrame):
                try:
                    client.start()
                    client.tune()
                    client.ask(ConnectionOpen("/"), channel=0)
                except (EOFError, OSError, UnexpectedFrame) as error:
                    refused.append(error)
                    continue
                client.open_channel()
                while not over.is_set():
                    client.ask(queue_declare("q"))

    declaring = threading.Thread(target=declare)
    declaring.start()
    try:
        for _ in range(20):
            order("reset")
            order("expect", queue="q", messages=0)
    finally:
        over.set()
        declaring.join()
    assert refused == []


@pytest.mark.parametrize(("consumers", "end"), [(0, "CONNECTION_FORCED"), (1, "unexpectedly closed")])
def test_a_celery_worker_notices_a_reset_at_once(broker: Address, order: Orders, consumers: int, end: str) -> None:
    """One that has just begun overlooks connection.close, but not the end of its socket."""
    connection = amqp.Connection("{}:{}".format(*broker))
    connection.connect()
    channel = connection.channel()
    channel.queue_declare("q")
    for _ in range(consumers):
        channel.basic_consume("q")
    order("reset")
    with pytest.raises((amqp.ConnectionForced, OSError), match=end):
        connection.drain_events(timeout=10)
    connection.collect()
