"""Faults that a test orders: each does what the table says, as often and to what was asked, and the log says so."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from broker.testing.faults.fault_table import FAULTS
from broker.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicConsumeOk,
    BasicNack,
    ConfirmSelect,
    ConnectionBlocked,
    ConnectionUnblocked,
)
from broker.wire.properties import BasicProperties
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.certificate_authority import Authority
from harness.brokers.http_broker import web_address, web_broker
from harness.clients.queue_steps import bodies, deliveries, deposit, drain, drain_messages
from harness.clients.shorthand import ack, consume, queue_declare
from harness.clients.wire_client import Client
from harness.waiting import eventually
from tests.conformance import Connect
from tests.conformance.testing.conftest import SETTINGS, Orders

PERSISTENT = BasicProperties(delivery_mode=2)
Told = Callable[[str], bool]


@pytest.fixture
def publisher(client: Client) -> Client:
    """A client in confirm mode on channel 1, with queue `q`."""
    client.ask(queue_declare("q", durable=True))
    client.ask(ConfirmSelect(False))
    return client


def answers(client: Client) -> Iterator[BasicAck | BasicNack]:
    """The confirms that have come: something else is asked for, and answered behind them."""
    if 2 not in client.channels:
        client.open_channel(2)
    client.ask(queue_declare("q", passive=True), channel=2)
    for item in client.arrived():
        assert isinstance(item, BasicAck | BasicNack), item
        yield item


def settled(client: Client, order: Orders, count: int) -> dict[int, str]:
    """Publish `count` messages; return the answer to each by the time that they all are on disk."""
    before = order("history", method="GET", event="routed")["last"]
    for number in range(count):
        client.publish(b"%d" % number, key="q")
    order("expect", event="routed", after=before, count=count)
    found, at = {}, 0
    for answer in answers(client):
        word = "ack" if isinstance(answer, BasicAck) else "nack"
        covered = range(at + 1, answer.delivery_tag + 1) if answer.multiple else [answer.delivery_tag]
        found |= {tag: word for tag in covered if tag not in found}
        at = max(at, answer.delivery_tag) if answer.multiple else at
    return found


ALL = {1: "ack", 2: "ack", 3: "ack", 4: "ack"}


@pytest.mark.parametrize(
    ("fault", "answered"),
    [
        ({"fault": "nack-confirms"}, ALL | {1: "nack"}),
        ({"fault": "nack-confirms", "times": 2, "skip": 1}, ALL | {2: "nack", 3: "nack"}),
        ({"fault": "nack-confirms", "queue": "q", "user": "guest", "channel": 1}, ALL | {1: "nack"}),
        ({"fault": "nack-confirms", "routing_key": "[a-q]", "connection": "127.0.0.1:*"}, ALL | {1: "nack"}),
        ({"fault": "nack-confirms", "queue": "other"}, ALL),
        ({"fault": "nack-confirms", "channel": 2}, ALL),
        ({"fault": "nack-confirms", "exchange": "amq.*"}, ALL),
        ({"fault": "nack-confirms", "chance": 0.5, "seed": 1}, ALL | {1: "nack"}),
        ({"fault": "nack-confirms", "chance": 0.5, "seed": 1, "times": 9}, ALL | {1: "nack", 4: "nack"}),
        ({"fault": "withhold-confirms", "skip": 1}, {1: "ack", 3: "ack", 4: "ack"}),
        ({"fault": "delay-confirms", "milliseconds": 60_000, "times": 2}, {3: "ack", 4: "ack"}),
        ({"fault": "coalesce-confirms", "count": 3}, {1: "ack", 2: "ack", 3: "ack"}),
    ],
)
def test_confirms_are_as_ordered(
    order: Orders, publisher: Client, told: Told, fault: dict[str, Any], answered: dict[int, str]
) -> None:
    given = order("faults", **fault)
    order("clock/stop")
    assert settled(publisher, order, 4) == answered
    assert drain(publisher, "q") == [b"0", b"1", b"2", b"3"]  # a fault of its confirm takes no message away
    (shown,) = order("faults", method="GET")
    assert told(f"fault {fault['fault']} by order {given['id']} of a test") == (shown["fired"] > 0)


def test_a_delayed_confirm_comes_when_its_time_has_come(order: Orders, publisher: Client) -> None:
    order("faults", fault="delay-confirms", milliseconds=60_000)
    order("clock/stop")
    assert settled(publisher, order, 1) == {}
    order("clock/step", seconds=60)
    assert publisher.expect(BasicAck).delivery_tag == 1


def test_confirms_together_are_one_frame_and_come_when_the_fault_is_lifted(order: Orders, publisher: Client) -> None:
    fault = order("faults", fault="coalesce-confirms", count=3)
    for number in range(5):
        publisher.publish(b"%d" % number, key="q")
    answer = publisher.expect(BasicAck)
    assert (answer.delivery_tag, answer.multiple) == (3, True)
    order("expect", queue="q", ready=5)
    order(f"faults/{fault['id']}", method="DELETE")
    assert publisher.expect(BasicAck).delivery_tag == 5


@pytest.mark.parametrize(
    ("fault", "left"), [("lose-connection-before-ack", [b"1", b"2"]), ("lose-connection-after-ack", [b"2"])]
)
def test_a_connection_is_lost_around_an_ack(
    order: Orders, client: Client, connect: Connect, told: Told, fault: str, left: list[bytes]
) -> None:
    client.ask(queue_declare("q", durable=True))
    deposit(client, b"1", b"2", key="q")
    client.send(consume("q", "tag"))
    client.expect(BasicConsumeOk)
    (first, _) = deliveries(client, 2)
    order("faults", fault=fault, queue="q", consumer_tag="tag")
    client.send(ack(first.method.delivery_tag))
    assert client.expect_gone() == []
    messages = drain_messages(connect(), "q")
    assert bodies(messages) == left
    assert all(message.method.redelivered for message in messages)
    assert told(f"fault {fault} by order")


def test_an_acknowledged_message_is_delivered_once_more(order: Orders, client: Client) -> None:
    client.ask(queue_declare("q", durable=True))
    deposit(client, b"1", key="q")
    order("faults", fault="redeliver")
    client.send(consume("q"))
    client.expect(BasicConsumeOk)
    for again in (False, True):
        (message,) = deliveries(client, 1)
        assert (message.body, message.method.redelivered) == (b"1", again)
        client.send(ack(message.method.delivery_tag))
    order("idle")
    assert order.api("queues/%2F/q")["messages"] == 0


def test_consumers_are_cancelled_by_tag(order: Orders, client: Client) -> None:
    client.ask(queue_declare("q", durable=True))
    for tag in ("a-1", "a-2", "b"):
        client.send(consume("q", tag))
        client.expect(BasicConsumeOk)
    order("faults", fault="cancel-consumer", consumer_tag="a-*")
    assert {client.expect(BasicCancel).consumer_tag for _ in range(2)} == {"a-1", "a-2"}
    order("expect", queue="q", consumers=1)


@pytest.mark.parametrize(
    ("fault", "closed"),
    [
        ({"fault": "close-connection"}, "connection 320 CONNECTION_FORCED - by order of a test"),
        ({"fault": "close-connection", "code": 501, "text": "bad"}, "connection 501 FRAME_ERROR - bad"),
        ({"fault": "close-channel"}, "channel 406 PRECONDITION_FAILED - by order of a test"),
        ({"fault": "close-channel", "code": 404, "text": "gone", "channel": 1}, "channel 404 NOT_FOUND - gone"),
    ],
)
def test_what_there_is_is_closed(order: Orders, client: Client, fault: dict[str, Any], closed: str) -> None:
    order("faults", **fault)
    assert client.closing() == closed


@pytest.mark.parametrize(
    ("fault", "closed"),
    [
        ({"fault": "close-connection", "code": 541}, "connection 541 INTERNAL_ERROR"),
        ({"fault": "close-channel", "code": 403}, "channel 403 ACCESS_REFUSED - by order of a test"),
    ],
)
def test_a_method_is_answered_with_a_close(order: Orders, client: Client, fault: dict[str, Any], closed: str) -> None:
    order("faults", on="queue.declare", skip=1, **fault)
    client.ask(queue_declare("before"))
    method = queue_declare("after")
    client.send(method)
    assert client.closing(method if "541" not in closed else None) == closed
    assert [queue["name"] for queue in order.api("queues")] == ["before"]


def test_a_publish_is_answered_with_a_close_of_its_channel(order: Orders, publisher: Client) -> None:
    """Frames behind it, its content first of all, are passed over."""
    order("faults", fault="close-channel", on="basic.publish", code=404, text="no exchange", skip=1)
    publisher.publish(b"1", key="q")
    assert publisher.expect(BasicAck).delivery_tag == 1
    for number in range(3):
        publisher.publish(b"%d" % number, key="q")
    assert publisher.receive().reply_text == "NOT_FOUND - no exchange"
    order("expect", queue="q", ready=1)


def test_a_blocked_connection_hears_of_it_and_of_its_end(order: Orders, publisher: Client) -> None:
    fault = order("faults", fault="block-connections", user="guest")
    assert isinstance(publisher.receive(channel=0), ConnectionBlocked)
    assert settled(publisher, order, 1) == {1: "ack"}
    order(f"faults/{fault['id']}", method="DELETE")
    assert isinstance(publisher.receive(channel=0), ConnectionUnblocked)


@pytest.mark.parametrize("resource", ["memory", "disk"])
def test_an_alarm_blocks_publishers_until_it_is_lifted(order: Orders, publisher: Client, resource: str) -> None:
    fault = order("faults", fault=f"{resource}-alarm")
    publisher.publish(b"1", key="q")
    blocked = publisher.receive(channel=0)
    assert isinstance(blocked, ConnectionBlocked)
    assert blocked.reason == f"low on {resource}"
    order(f"faults/{fault['id']}", method="DELETE")
    assert isinstance(publisher.receive(channel=0), ConnectionUnblocked)
    assert publisher.expect(BasicAck).delivery_tag == 1


def test_connections_and_logins_are_refused(order: Orders, connect: Connect, broker: Any, told: Told) -> None:
    order("faults", fault="refuse-connections")
    with closing(Client(broker)) as refused:
        assert refused.expect_gone() == []
    order("faults", fault="refuse-logins", user="guest", times=2)
    for _ in range(2):
        with closing(Client(broker)) as refused:
            refused.start(capabilities={"authentication_failure_close": True})
            assert refused.closing().startswith("connection 403 ACCESS_REFUSED - Login was refused")
    connect()
    assert told("fault refuse-logins by order")


def test_bytes_are_lost_in_either_direction(order: Orders, connect: Connect) -> None:
    """Neither side is told. A heartbeat, or a time limit of its own, is what a client finds it out by."""
    for direction, unheard in (("out", {"never-heard"}), ("in", set[str]())):
        client = connect()
        fault = order("faults", fault="drop-bytes", direction=direction)
        client.send(queue_declare("never-heard"))
        with pytest.raises(TimeoutError):
            client.receive(timeout=0.1)
        order(f"faults/{fault['id']}", method="DELETE")
        assert {queue["name"] for queue in order.api("queues")} == unheard
        order("reset")


def test_some_bytes_still_pass(order: Orders, client: Client) -> None:
    client.ask(queue_declare("q"))
    deposit(client, b"x" * 1000, key="q")
    client.send(consume("q", no_ack=True))
    client.expect(BasicConsumeOk)
    order("faults", fault="drop-bytes", after=100)
    deposit_by = order.api("exchanges/%2F/amq.default/publish", method="POST", properties={}, routing_key="q",
                           payload="y" * 1000, payload_encoding="string")  # fmt: skip
    assert deposit_by == {"routed": True}
    (message,) = deliveries(client, 1)
    assert message.body == b"x" * 1000
    received = client.receive_raw(100)
    assert len(received) == 100


def test_a_stalled_socket_goes_on_when_the_fault_is_lifted(order: Orders, client: Client) -> None:
    fault = order("faults", fault="stall")
    client.send(queue_declare("late"))
    with pytest.raises(TimeoutError):
        client.receive(timeout=0.1)
    assert order.api("queues") == []
    order(f"faults/{fault['id']}", method="DELETE")
    assert client.receive().queue == "late"


def test_bytes_trickle(order: Orders, client: Client) -> None:
    order("faults", fault="trickle", bytes=3, milliseconds=5)
    began = time.monotonic()
    client.ask(queue_declare("a-name-of-thirty-bytes-in-all."))
    assert time.monotonic() - began > 0.05


def test_clients_with_tls_meet_the_same(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    process = web_broker(tmp_path, SETTINGS, tls=authority.config())
    process.start()
    try:
        order = Orders(web_address(process))
        with closing(Client.connect(process.tls_address, security=authority.client())) as client:
            fault = order("faults", fault="stall")
            client.send(queue_declare("q"))
            with pytest.raises(TimeoutError):
                client.receive(timeout=0.1)
            order(f"faults/{fault['id']}", method="DELETE")
            assert client.receive().queue == "q"
            deposit(client, b"1", key="q")
            client.send(consume("q"))
            client.expect(BasicConsumeOk)
            order("faults", fault="lose-connection-before-ack")
            client.send(ack(deliveries(client, 1)[0].method.delivery_tag))
            client.expect_gone()
        assert order("expect", queue="q", ready=1)
    finally:
        process.stop()


def test_a_slow_disk_delays_confirms(order: Orders, publisher: Client) -> None:
    order("faults", fault="slow-disk", milliseconds=100)
    began = time.monotonic()
    publisher.publish(b"1", key="q", properties=PERSISTENT)
    publisher.expect(BasicAck)
    assert time.monotonic() - began >= 0.1


def test_a_full_disk_blocks_and_is_overcome(order: Orders, publisher: Client, process: BrokerProcess) -> None:
    fault = order("faults", fault="full-disk")
    publisher.publish(b"1", key="q", properties=PERSISTENT)
    eventually(lambda: process.tell("status")["alarms"], "the alarm")  # raised after the log has the failed commit
    publisher.publish(b"2", key="q", properties=PERSISTENT)
    assert isinstance(publisher.receive(channel=0), ConnectionBlocked)
    order(f"faults/{fault['id']}", method="DELETE")
    assert isinstance(publisher.receive(channel=0), ConnectionUnblocked)
    assert order("expect", queue="q", ready=2)


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that may end."""
    process = web_broker(tmp_path_factory.mktemp("mortal"), SETTINGS)
    yield process
    if process.running:
        process.stop()


@pytest.mark.parametrize(
    ("fault", "kept"), [("die-before-commit", [b"1"]), ("die-after-commit", [b"1", b"2"]), ("fail-sync", [b"1"])]
)
def test_the_process_ends_around_a_commit(mortal: BrokerProcess, fault: str, kept: list[bytes]) -> None:
    mortal.start()
    order = Orders(web_address(mortal))
    order("reset")
    with closing(Client.connect(mortal.address)) as client:
        client.ask(queue_declare("q", durable=True))
        deposit(client, b"1", key="q", properties=PERSISTENT)
        order("idle")
        order("faults", fault=fault)
        client.ask(ConfirmSelect(False))
        client.publish(b"2", key="q", properties=PERSISTENT)
        assert not any(isinstance(item, BasicAck) for item in client.expect_gone())
    assert mortal.wait() != 0
    assert f"fault {fault} by order" in mortal.log()
    mortal.start()
    with closing(Client.connect(mortal.address)) as client:
        assert drain(client, "q") == kept
    mortal.stop()


@pytest.mark.parametrize(
    ("given", "status", "reason"),
    [
        ({}, 400, "argument fault is missing"),
        (
            {"fault": "explode"},
            404,
            "there is no fault explode; known: nack-confirms, withhold-confirms, delay-confirms",
        ),
        ({"fault": "slow-disk"}, 400, "argument milliseconds is missing: how much longer"),
        ({"fault": "slow-disk", "milliseconds": "10"}, 400, "argument milliseconds: expected a number from 0 to"),
        (
            {"fault": "slow-disk", "milliseconds": 1, "queue": "q"},
            400,
            "fault slow-disk takes no argument queue; known:",
        ),
        ({"fault": "stall", "times": 1}, 400, "fault stall takes no argument times; known: connection, user, vhost"),
        ({"fault": "nack-confirms", "times": -1}, 400, "argument times: expected a number from 0 to"),
        ({"fault": "nack-confirms", "chance": 2}, 400, "argument chance: expected a number from 0 to 1"),
        ({"fault": "nack-confirms", "queue": 5}, 400, "argument queue: expected a text"),
        ({"fault": "close-channel", "code": 999}, 400, "argument code: expected one of 311, 313, 403, 404, 405, 406"),
        ({"fault": "close-channel", "on": "queue.make"}, 400, "argument on: expected one of now, "),
        ({"fault": "drop-bytes", "direction": "up"}, 400, "argument direction: expected one of out, in"),
        ({"fault": "cancel-consumer"}, 404, "fault cancel-consumer: nothing that is there now fits, of 0"),
    ],
)
def test_what_cannot_be_ordered_is_refused(order: Orders, given: dict[str, Any], status: int, reason: str) -> None:
    assert reason in order("faults", status=status, **(given or {"times": 1}))
    assert order("faults", method="GET") == []
    assert "there is no fault with the id 7" in order("faults/7", method="DELETE", status=404)


def test_a_shovel_within_the_broker_works_and_meets_no_lost_connection(order: Orders, publisher: Client) -> None:
    """Its connections have no sockets of the network, and no faults."""
    lost = order("faults", fault="lose-connection-before-ack")
    local = {"src-uri": "amqp://", "src-queue": "q", "dest-uri": "amqp://", "dest-queue": "there"}
    order.api("parameters/shovel/%2F/mover", method="PUT", status=201, value=local)
    publisher.publish(b"1", key="q")
    order("expect", event="acked", queue="q")
    order("expect", queue="there", ready=1)
    assert order("faults", method="GET") == [lost]


def test_faults_end_with_a_reset(order: Orders, publisher: Client, connect: Connect) -> None:
    order("faults", fault="withhold-confirms", times=100)
    order("faults", fault="memory-alarm")
    assert order("faults", method="DELETE") == {"lifted": 2}
    disk, memory = order("faults", fault="disk-alarm"), order("faults", fault="memory-alarm")
    order(f"faults/{disk['id']}", method="DELETE")
    assert order.api("nodes?columns=mem_alarm,disk_free_alarm") == [{"mem_alarm": True, "disk_free_alarm": False}]
    assert memory["fired"] == 1
    order("reset")
    assert order("faults", method="GET") == []
    client = connect()
    client.ask(queue_declare("q"))
    deposit(client, b"1", key="q")


def test_the_table_is_asked_for(order: Orders) -> None:
    shown = order("fault-table", method="GET")
    assert [fault["fault"] for fault in shown] == list(FAULTS)
    assert shown[2]["parameters"] == {"milliseconds": {"meaning": "how much later", "default": None}}
