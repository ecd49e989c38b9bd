"""What a broker records of what happens to messages: the real process, and its log read back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.wire.methods import (
    BasicAck,
    BasicDeliver,
    BasicGetOk,
    BasicNack,
    BasicReturn,
    ConfirmSelect,
    QueuePurge,
    TxCommit,
    TxSelect,
)
from broker.wire.properties import BasicProperties
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.recording_broker import events_of, kinds, recording_broker
from harness.clients.contents import PERSISTENT, with_headers
from harness.clients.queue_steps import deposit, drain
from harness.clients.shorthand import ack, consume, exchange_declare, get, nack, queue_bind, queue_declare, queue_delete
from harness.clients.wire_client import Client
from harness.waiting import eventually
from leveret_spark.events.event_log_reader import Event

pytestmark = pytest.mark.slow

FIRST = (1 << 40) + 1
"""The number of the first message of the first boot."""

MIXED = ("boot", "declare", "snapshot", "stop", "queued")


@pytest.fixture
def recording(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that records events."""
    broker = recording_broker(tmp_path)
    broker.start()
    yield broker
    if broker.running:
        broker.kill()


@pytest.fixture
def client(recording: BrokerProcess) -> Iterator[Client]:
    client = Client.connect(recording.address)
    yield client
    client.close()


def told(broker: BrokerProcess) -> list[Event]:
    """What was recorded of messages, once the broker has stopped."""
    assert broker.stop() == 0, broker.log()
    return [event for event in events_of(broker) if event.kind not in MIXED]


def shown(events: list[Event], *fields: str) -> list[tuple[Any, ...]]:
    return [tuple(getattr(event, field) for field in ("kind", *fields)) for event in events]


def declare(client: Client, name: str, **arguments: Any) -> str:
    prefixed = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    client.ask(queue_declare(name, durable=True, arguments=prefixed))
    return name


def test_a_message_from_publish_to_ack(recording: BrokerProcess, client: Client) -> None:
    client.ask(exchange_declare("logs", "fanout", durable=True))
    for name in ("a", "b"):
        client.ask(queue_bind(declare(client, name), "logs"))
    client.ask(ConfirmSelect(False))
    client.publish(b"four", exchange="logs", key="key", properties=PERSISTENT)
    client.expect(BasicAck)
    client.ask(consume("a", "tag"))
    delivery = client.expect_message(BasicDeliver).method
    client.send(ack(delivery.delivery_tag))
    client.finish()
    events = told(recording)
    assert shown(events, "queue", "msg_id", "position") == [
        ("publish", None, FIRST, None),
        ("route", "a", FIRST, FIRST),
        ("route", "b", FIRST, FIRST),
        ("confirm", None, FIRST, None),
        ("deliver", "a", FIRST, FIRST),
        ("ack", "a", FIRST, FIRST),
    ]
    publish, route, *_, deliver, acked = events
    assert (publish.persistent, route.persistent) == (True, True)
    assert (publish.vhost, publish.exchange, publish.routing_key) == ("/", "logs", "key")
    assert (publish.size_bytes, publish.persistent, publish.channel) == (4, True, 1)
    assert (deliver.consumer_tag, deliver.delivery_tag, deliver.redelivered) == ("tag", 1, False)
    assert deliver.connection == publish.connection is not None
    assert acked.reason is None
    assert [event.seq for event in events] == sorted({event.seq for event in events})
    assert [event.ts_us for event in events] == sorted(event.ts_us for event in events)


def test_a_run_of_publishes_is_an_event_for_each(recording: BrokerProcess, client: Client) -> None:
    declare(client, "q")
    deposit(client, *(b"x" * size for size in range(50)), key="q", properties=BasicProperties(delivery_mode=2))
    assert len(drain(client, "q")) == 50
    client.finish()
    events = told(recording)
    by_kind = {kind: [event for event in events if event.kind == kind] for kind in set(kinds(events))}
    expected = list(range(FIRST, FIRST + 50))
    for kind in ("publish", "route", "confirm", "deliver", "ack"):
        assert [event.msg_id for event in by_kind[kind]] == expected, kind
    assert [event.size_bytes for event in by_kind["publish"]] == list(range(50))
    assert {event.reason for event in by_kind["ack"]} == {"automatic"}


def test_messages_that_go_nowhere_or_are_refused(recording: BrokerProcess, client: Client) -> None:
    declare(client, "full", max_length=0, overflow="reject-publish")
    client.ask(ConfirmSelect(False))
    client.publish(b"", key="nowhere", mandatory=True)
    client.expect_message(BasicReturn)
    client.expect(BasicAck)
    client.publish(b"", key="full")
    client.expect(BasicNack)
    client.finish()
    assert shown(told(recording), "msg_id") == [
        ("publish", FIRST),
        ("return", FIRST),
        ("confirm", FIRST),
        ("publish", FIRST + 1),
        ("nack", FIRST + 1),
    ]


def test_what_comes_back_and_what_dies(recording: BrokerProcess, client: Client) -> None:
    declare(client, "dead")
    declare(client, "q", dead_letter_exchange="", dead_letter_routing_key="dead", max_length=2)
    deposit(client, b"1", b"2", b"3", key="q")
    client.send(get("q"))
    client.expect_message(BasicGetOk)
    client.send(nack(1, requeue=True), get("q"))
    assert client.expect_message(BasicGetOk).method.redelivered
    client.send(nack(2, requeue=False))
    declare(client, "brief", message_ttl=0)
    deposit(client, b"4", key="brief")
    eventually(lambda: client.ask(queue_declare("dead", passive=True)).message_count == 2, "two dead letters")
    client.finish()
    events = told(recording)
    queue = [event for event in events if event.queue == "q"]
    assert shown(queue, "msg_id", "reason") == [
        ("route", FIRST, None),
        ("route", FIRST + 1, None),
        ("route", FIRST + 2, None),
        ("drop", FIRST, "maxlen"),
        ("deadletter", FIRST, "maxlen"),
        ("deliver", FIRST + 1, None),
        ("requeue", FIRST + 1, None),
        ("deliver", FIRST + 1, None),
        ("reject", FIRST + 1, "rejected"),
        ("deadletter", FIRST + 1, "rejected"),
    ]
    assert [event.redelivered for event in queue if event.kind == "deliver"] == [False, True]
    assert shown([event for event in events if event.queue == "brief"], "reason") == [
        ("route", None),
        ("expire", "expired"),
    ]
    letters = [event for event in events if event.kind == "publish" and event.connection == ""]
    assert [(event.exchange, event.routing_key, event.channel) for event in letters] == [("", "dead", 0)] * 2
    assert [event.msg_id for event in events if event.queue == "dead"] == [event.msg_id for event in letters]


def test_what_dies_because_of_a_message_may_go_before_it(recording: BrokerProcess, client: Client) -> None:
    """The message reaches the second queue after the dead letter it caused: its place there is another number."""
    client.ask(exchange_declare("both", "fanout", durable=True))
    declare(client, "b")
    client.ask(
        queue_bind(declare(client, "a", dead_letter_exchange="", dead_letter_routing_key="b", max_length=1), "both")
    )
    client.ask(queue_bind("b", "both"))
    deposit(client, b"1", b"2", key="", exchange="both", properties=BasicProperties(delivery_mode=2))
    assert drain(client, "b") == [b"1", b"1", b"2"]
    client.finish()
    events = told(recording)
    routes = [event for event in events if event.kind == "route" and event.queue == "b"]
    assert [(event.msg_id, event.position) for event in routes] == [
        (FIRST, FIRST),
        (FIRST + 2, FIRST + 2),
        (FIRST + 1, FIRST + 3),
    ]
    delivered = [event.position for event in events if event.kind == "deliver"]
    assert delivered == [event.position for event in routes]


def test_a_transaction_is_confirmed_by_its_end(recording: BrokerProcess, client: Client) -> None:
    declare(client, "q")
    client.ask(TxSelect())
    for _ in range(2):
        client.publish(b"", key="q", properties=PERSISTENT)
        client.publish(b"", key="q", properties=PERSISTENT)
        client.ask(TxCommit())
    client.finish()
    assert shown(told(recording), "msg_id") == [
        *(
            (kind, FIRST + first + message)
            for first in (0, 2)
            for kind, message in (
                ("publish", 0),
                ("route", 0),
                ("publish", 1),
                ("route", 1),
                ("confirm", 0),
                ("confirm", 1),
            )
        )
    ]


def test_confirms_out_of_order_name_the_right_messages(recording: BrokerProcess, client: Client) -> None:
    """A transient message is confirmed before the persistent one in front of it."""
    declare(client, "q")
    client.ask(ConfirmSelect(False))
    client.publish(b"", key="q", properties=PERSISTENT)
    client.publish(b"", key="q")
    client.publish(b"", key="nowhere")
    confirmed: set[int] = set()
    order: list[int] = []
    while len(confirmed) < 3:
        answer = client.expect(BasicAck)
        tags = range(1, answer.delivery_tag + 1) if answer.multiple else [answer.delivery_tag]
        order += [tag for tag in tags if tag not in confirmed]
        confirmed |= set(tags)
    client.finish()
    events = told(recording)
    assert [event.msg_id for event in events if event.kind == "confirm"] == [FIRST + tag - 1 for tag in order]


def test_purge_and_delete_say_up_to_where(recording: BrokerProcess, client: Client) -> None:
    declare(client, "q")
    deposit(client, b"1", b"2", b"3", key="q")
    client.send(get("q"))
    client.expect_message(BasicGetOk)
    client.ask(QueuePurge("q", False))
    client.ask(queue_delete("q"))
    client.finish()
    events = told(recording)
    ends = [(event.kind, json.loads(event.detail)) for event in events if event.detail]
    assert ends == [("purge", {"below": FIRST + 3, "kept": [FIRST]}), ("delete", {"below": FIRST + 3, "kept": []})]


def test_a_stream_says_which_message_got_which_offset(recording: BrokerProcess, client: Client) -> None:
    declare(client, "s", queue_type="stream")
    declare(client, "other")
    deposit(client, b"0", key="other")
    deposit(client, b"1", b"2", key="s")
    client.finish()
    routes = [event for event in told(recording) if event.queue == "s"]
    assert [(event.msg_id, event.position) for event in routes] == [(FIRST + 1, 0), (FIRST + 2, 1)]


def test_a_quorum_queue_puts_what_came_back_at_its_end(recording: BrokerProcess, client: Client) -> None:
    declare(client, "q", queue_type="quorum")
    deposit(client, b"1", b"2", key="q")
    client.send(get("q"))
    client.expect_message(BasicGetOk)
    client.send(nack(1, requeue=True))
    assert drain(client, "q") == [b"2", b"1"]
    client.finish()
    events = [event for event in told(recording) if event.queue == "q"]
    assert shown(events, "msg_id", "position") == [
        ("route", FIRST, FIRST),
        ("route", FIRST + 1, FIRST + 1),
        ("deliver", FIRST, FIRST),
        ("requeue", FIRST, FIRST),
        ("route", FIRST, FIRST + 2),
        ("deliver", FIRST + 1, FIRST + 1),
        ("ack", FIRST + 1, FIRST + 1),
        ("deliver", FIRST + 2, FIRST + 2),
        ("ack", FIRST + 2, FIRST + 2),
    ]


def test_a_dead_letter_that_waits_has_a_place_of_its_own(recording: BrokerProcess, client: Client) -> None:
    """Over a restart too, until somebody takes it."""
    letters = {"dead_letter_exchange": "", "dead_letter_routing_key": "dead", "dead_letter_strategy": "at-least-once"}
    declare(client, "q", queue_type="quorum", overflow="reject-publish", **letters)
    deposit(client, b"1", key="q", properties=PERSISTENT)
    client.send(get("q"))
    client.expect_message(BasicGetOk)
    client.send(nack(1, requeue=False), get("q"))
    client.receive()
    recording.restart()
    again = Client.connect(recording.address)
    declare(again, "dead")
    eventually(lambda: again.ask(queue_declare("dead", passive=True)).message_count, "the letter to be taken")
    again.close()
    assert recording.stop() == 0
    waiting = FIRST + 1
    events = [event for event in events_of(recording) if event.kind not in ("boot", "declare", "snapshot", "stop")]
    assert shown(events, "queue", "msg_id", "position")[4:-1] == [
        ("reject", "q", FIRST, FIRST),
        ("deadletter", "q", FIRST, FIRST),
        ("route", "q", FIRST, waiting),
        ("queued", "q", waiting, waiting),
        ("queued", "q", waiting, waiting),
        ("publish", None, (2 << 40) + 1, None),
        ("route", "dead", (2 << 40) + 1, (2 << 40) + 1),
        ("release", "q", waiting, waiting),
    ]
    assert shown(events[-1:], "queue") == [("queued", "dead")]


def test_a_delayed_message_waits_and_is_published_anew(recording: BrokerProcess, client: Client) -> None:
    client.ask(exchange_declare("later", "x-delayed-message", durable=True, arguments={"x-delayed-type": "fanout"}))
    client.ask(queue_bind(declare(client, "q"), "later"))
    deposit(client, b"1", key="", exchange="later", properties=with_headers({"x-delay": 20}))
    eventually(lambda: client.ask(queue_declare("q", passive=True)).message_count == 1, "the message to be due")
    client.finish()
    seen = shown(told(recording), "queue", "msg_id")
    seen.remove(("confirm", None, FIRST))  # it may have been due before it was on disk
    assert seen == [
        ("publish", None, FIRST),
        ("route", "delayed by exchange later", FIRST),
        ("release", "delayed by exchange later", FIRST),
        ("publish", None, FIRST + 1),
        ("route", "q", FIRST + 1),
    ]


Ending = Callable[[BrokerProcess], object]


@pytest.mark.parametrize("end", [BrokerProcess.stop, BrokerProcess.kill])
def test_numbers_outlast_a_restart_and_the_next_boot_tells_of_the_last(recording: BrokerProcess, end: Ending) -> None:
    client = Client.connect(recording.address)
    declare(client, "q")
    deposit(client, b"1", b"2", b"3", key="q", properties=BasicProperties(delivery_mode=2))
    client.send(get("q", no_ack=True))
    client.expect_message(BasicGetOk)
    client.close()
    events = recording.data_dir / "events"
    eventually(lambda: any(path.stat().st_size > 200 for path in events.iterdir()), "records to be handed over")
    end(recording)
    recording.start()
    client = Client.connect(recording.address)
    left = drain(client, "q")
    client.close()
    assert recording.stop() == 0
    found = events_of(recording)
    first = [event for event in found if event.boot == 1]
    second = [event for event in found if event.boot == 2]
    assert [event.seq for event in first] == list(range(1, len(first) + 1))
    detail = json.loads(second[0].detail or "")
    assert second[0].kind == "boot"
    assert (detail["previous_boot"], detail["previous_last"]) == (1, first[-1].seq)
    assert 0 < detail["previous_known"] <= first[-1].seq
    assert ("stop" in kinds(first)) == (end is BrokerProcess.stop)
    again = [event.msg_id for event in second if event.kind == "deliver"]
    assert again == list(range(FIRST + 3 - len(left), FIRST + 3))
    assert second[-1].kind == "stop"
    assert json.loads(second[-1].detail or "") == {"complete": True}


def test_what_is_queued_is_recorded_at_both_ends(recording: BrokerProcess, client: Client) -> None:
    declare(client, "q")
    declare(client, "levels", max_priority=2)
    deposit(client, b"1", b"2", key="q", properties=BasicProperties(delivery_mode=2))
    deposit(client, b"3", key="levels", properties=BasicProperties(delivery_mode=2, priority=2))
    client.finish()
    assert recording.stop() == 0
    recording.start()
    assert recording.stop() == 0
    places = [("levels", FIRST + 2), ("q", FIRST), ("q", FIRST + 1)]
    found = [event for event in events_of(recording) if event.kind == "queued"]
    for boot in (1, 2):
        queued = sorted((event.queue, event.position) for event in found if event.boot == boot)
        assert queued == places * boot if boot == 1 else sorted(places * 2), boot


def test_queues_are_recorded_when_they_come_into_being_and_when_they_come_back(
    recording: BrokerProcess, client: Client
) -> None:
    client.ask(queue_declare("brief", exclusive=True))
    declare(client, "levels", max_priority=2)
    declare(client, "log", queue_type="stream")
    client.finish()
    assert recording.stop() == 0
    recording.start()
    assert recording.stop() == 0
    found = [event for event in events_of(recording) if event.kind == "declare"]
    assert [(event.boot, event.queue, *json.loads(event.detail or "").values()) for event in found] == [
        (1, "brief", "classic", False, 0),
        (1, "levels", "classic", True, 2),
        (1, "log", "stream", True, 0),
        (2, "levels", "classic", True, 2),
        (2, "log", "stream", True, 0),
    ]


def test_delivered_messages_carry_their_number_where_that_is_wanted(tmp_path: Path) -> None:
    broker = recording_broker(tmp_path, "stamp_message_ids = true\n")
    broker.start()
    client = Client.connect(broker.address)
    declare(client, "dead")
    declare(client, "q", dead_letter_exchange="", dead_letter_routing_key="dead")
    deposit(client, b"1", key="q", properties=with_headers({"mine": 1}))
    client.ask(consume("q", "t"))
    stamped = client.expect_message(BasicDeliver)
    assert {name: field.value for name, field in (stamped.properties.headers or {}).items()} == {
        "mine": 1,
        "x-leveret-message-id": FIRST,
    }
    client.send(nack(1, requeue=False), get("dead", no_ack=True))
    letter = client.expect_message(BasicGetOk).properties.headers or {}
    assert letter["x-leveret-message-id"].value == FIRST + 1
    client.close()
    assert broker.stop() == 0


def test_nothing_is_recorded_unasked(fresh_broker: BrokerProcess) -> None:
    assert fresh_broker.stop() == 0
    assert not (fresh_broker.data_dir / "events").exists()
