"""A broker's records of what happens to messages: the real process, and its log read back.

Most of it is a chapter each of one broker's log: a queue whose name says so is declared where a chapter begins. The
numbers of messages count from 1 in each.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from broker.wire.methods import (
    BasicAck,
    BasicDeliver,
    BasicGetOk,
    BasicNack,
    BasicReturn,
    ConfirmSelect,
    ExchangeBind,
    ExchangeDelete,
    QueuePurge,
    TxCommit,
    TxSelect,
)
from harness.brokers.admin_requests import ask
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.recording_broker import events_of, recording_broker
from harness.clients.contents import PERSISTENT, with_headers
from harness.clients.queue_steps import deposit, drain, ready
from harness.clients.shorthand import ack, consume, exchange_declare, get, nack, queue_bind, queue_declare, queue_delete
from harness.clients.wire_client import Client
from harness.waiting import eventually
from leveret_spark.events.event_columns import Event
from pipeline.audit.audit import audit, reduce
from pipeline.event_parts import parts_of
from tests.pipeline.oracle import sql_verdicts

pytestmark = pytest.mark.slow

FIRST = (1 << 40) + 1
"""The number of the first message of the first boot."""

SETTINGS = ("declare", "policy")
MIXED = ("boot", "declare", "snapshot", "stop", "queued")
CHAPTER = "chapter "

Story = Generator[None, list[Event]]
STORIES: dict[str, Callable[[Client], Story]] = {}


def story(tell: Callable[[Client], Story]) -> Callable[[Client], Story]:
    """A conversation that is a chapter of the log, by its name; then it is given the events, and says what they are."""
    STORIES[tell.__name__] = tell
    return tell


def declare(client: Client, name: str, **arguments: Any) -> str:
    prefixed = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    client.ask(queue_declare(name, durable=True, arguments=prefixed))
    return name


def shown(events: list[Event], *fields: str) -> str:
    """The kinds of events, each with what it has of these fields: "publish 1, route q 1"."""
    values = [[getattr(event, field) for field in ("kind", *fields)] for event in events]
    return ", ".join(" ".join(str(value) for value in each if value is not None) for each in values)


class Told(NamedTuple):
    """The log's directory, and each story with the events of its messages."""

    log: Path
    chapters: dict[str, tuple[Story, list[Event]]]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """Each story when it has been told, and what was recorded of its messages."""
    broker = recording_broker(tmp_path_factory.mktemp("recorded"))
    broker.start()
    told = dict[str, Story]()
    for name, story in STORIES.items():
        client = Client.connect(broker.address)
        declare(client, CHAPTER + name)
        told[name] = story(client)
        next(told[name])
        client.finish()
        client.close()
    assert broker.stop() == 0, broker.log()
    events = events_of(broker)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    found: dict[str, list[Event]] = {}
    for event in events:
        if event.kind == "declare" and (event.queue or "").startswith(CHAPTER):
            found[(event.queue or "").removeprefix(CHAPTER)] = []
        elif found and event.kind not in MIXED:
            found[list(found)[-1]].append(event)
    chapters = {name: (told[name], counted_from_one(events)) for name, events in found.items()}
    return Told(broker.data_dir / "events", chapters)


def counted_from_one(events: list[Event]) -> list[Event]:
    """The same, with the first message as number 1; offsets of streams are small and stay."""
    before = min((event.msg_id for event in events if event.msg_id), default=FIRST) - 1

    def less(number: int | None) -> int | None:
        return number - before if number and number > before else number

    return [event._replace(msg_id=less(event.msg_id), position=less(event.position)) for event in events]


@story
def ends(client: Client) -> Story:
    """In numbers of the log itself: this is its first chapter."""
    declare(client, "purged")
    deposit(client, b"1", b"2", b"3", key="purged")
    client.send(get("purged"))
    client.expect_message(BasicGetOk)
    client.ask(QueuePurge("purged", False))
    client.ask(queue_delete("purged"))
    events = yield
    found = [(event.kind, json.loads(event.detail)) for event in events if event.detail]
    assert [found.pop(0) for _ in range(3)] == [("publish", {"queues": 1})] * 3
    assert found == [("purge", {"below": FIRST + 3, "kept": [FIRST]}), ("delete", {"below": FIRST + 3, "kept": []})]


@story
def publish_to_ack(client: Client) -> Story:
    client.ask(exchange_declare("logs", "fanout", durable=True))
    for name in ("a1", "a2"):
        client.ask(queue_bind(declare(client, name), "logs"))
    client.ask(ConfirmSelect(False))
    client.publish(b"four", exchange="logs", key="key", properties=PERSISTENT)
    client.expect(BasicAck)
    client.ask(consume("a1", "tag"))
    client.send(ack(client.expect_message(BasicDeliver).method.delivery_tag))
    events = yield
    recorded = shown(events, "queue", "msg_id", "position")
    assert recorded == (
        "bind a1, bind a2, publish 1, route a1 1 1, route a2 1 1, confirm 1, deliver a1 1 1, ack a1 1 1"
    )
    _, _, publish, route, *_, deliver, acked = events
    assert (publish.vhost, publish.exchange, publish.routing_key) == ("/", "logs", "key")
    assert (publish.size_bytes, publish.persistent, route.persistent, publish.channel) == (4, True, True, 1)
    assert (deliver.consumer_tag, deliver.delivery_tag, deliver.redelivered) == ("tag", 1, False)
    assert deliver.connection == publish.connection is not None
    assert acked.reason is None
    assert [event.ts_us for event in events] == sorted(event.ts_us for event in events)


@story
def names_that_are_no_text(client: Client) -> Story:
    """Two names stay two, whatever their bytes are."""
    for name in ("b\udcff", "b\udcfe"):
        declare(client, name)
        deposit(client, b"", key=name)
    events = yield
    assert shown(events, "queue", "routing_key", "msg_id") == (
        r"publish b\xff 1, route b\xff 1, confirm 1, publish b\xfe 2, route b\xfe 2, confirm 2"
    )


@story
def refused(client: Client) -> Story:
    declare(client, "full", max_length=0, overflow="reject-publish")
    client.ask(ConfirmSelect(False))
    client.publish(b"", key="nowhere", mandatory=True)
    client.expect_message(BasicReturn)
    client.expect(BasicAck)
    client.publish(b"", key="full")
    client.expect(BasicNack)
    events = yield
    assert shown(events, "msg_id") == "publish 1, return 1, confirm 1, publish 2, nack 2"


@story
def left_behind_too_often(client: Client) -> Story:
    declare(client, "brittle", queue_type="quorum", delivery_limit=0)
    deposit(client, b"1", key="brittle")
    client.open_channel(2)
    client.send(get("brittle"), channel=2)
    client.expect_message(BasicGetOk, channel=2)
    client.close_channel(2)
    events = yield
    assert shown(events, "msg_id", "reason") == (
        "publish 1, route 1, confirm 1, deliver 1, requeue 1 abandoned, drop 1 delivery_limit"
    )


@story
def deaths(client: Client) -> Story:
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
    eventually(lambda: ready(client, "dead") == 2, "two dead letters")
    events = yield
    queue = [event for event in events if event.queue == "q"]
    assert shown(queue, "msg_id", "reason") == (
        "route 1, route 2, route 3, drop 1 maxlen, deadletter 1 maxlen, publish 4, "
        "deliver 2, requeue 2, deliver 2, reject 2 rejected, deadletter 2 rejected, publish 5"
    )
    assert [event.redelivered for event in queue if event.kind == "deliver"] == [False, True]
    brief = [event for event in events if event.queue == "brief"]
    assert shown(brief, "reason") == "route, expire expired"
    dead_letters = [event for event in events if event.kind == "publish" and event.connection == ""]
    died = [event for event in events if event.kind == "deadletter"]
    assert [(event.queue, event.position, event.detail) for event in dead_letters] == [
        (event.queue, event.position, event.detail) for event in died
    ], "a dead letter names the place of the death, and both how many queues it goes to"
    assert [(event.exchange, event.routing_key, event.channel) for event in dead_letters] == [("", "dead", 0)] * 2
    assert [event.msg_id for event in events if event.queue == "dead"] == [event.msg_id for event in dead_letters]


@story
def caused_death(client: Client) -> Story:
    """The message reaches the second queue after the dead letter it caused: its place there is another number."""
    client.ask(exchange_declare("both", "fanout", durable=True))
    declare(client, "c2")
    declare(client, "c1", dead_letter_exchange="", dead_letter_routing_key="c2", max_length=1)
    for queue in ("c1", "c2"):
        client.ask(queue_bind(queue, "both"))
    deposit(client, b"1", b"2", key="", exchange="both", properties=PERSISTENT)
    assert drain(client, "c2") == [b"1", b"1", b"2"]
    events = yield
    routes = [event for event in events if event.kind == "route" and event.queue == "c2"]
    assert shown(routes, "msg_id", "position") == "route 1 1, route 3 3, route 2 4"
    assert [event.position for event in events if event.kind == "deliver"] == [1, 3, 4]


@story
def transactions(client: Client) -> Story:
    declare(client, "tx")
    client.ask(TxSelect())
    for _ in range(2):
        client.publish(b"", key="tx", properties=PERSISTENT)
        client.publish(b"", key="tx", properties=PERSISTENT)
        client.ask(TxCommit())
    events = yield
    assert shown(events, "msg_id") == (
        "publish 1, route 1, publish 2, route 2, confirm 1, confirm 2, "
        "publish 3, route 3, publish 4, route 4, confirm 3, confirm 4"
    )
    assert {event.detail for event in events if event.kind == "publish"} == {'{"queues": 1, "transaction": true}'}


@story
def a_transaction_that_a_full_quorum_queue_refuses(client: Client) -> Story:
    """As RabbitMQ's, its commit-ok does not say so: the log has no confirm of what was refused."""
    declare(client, "refusing", queue_type="quorum", max_length=0, overflow="reject-publish")
    deposit(client, b"", key="refusing")
    client.ask(TxSelect())
    for _ in range(2):
        client.publish(b"", key="refusing", properties=PERSISTENT)
    client.ask(TxCommit())
    events = yield
    assert shown(events, "msg_id") == "publish 1, route 1, confirm 1, publish 2, publish 3"


@story
def bindings(client: Client) -> Story:
    """One between exchanges has no queue; each ends with what it leads to, and with its exchange."""
    for name in ("from", "to"):
        client.ask(exchange_declare(name, "topic"))
    for queue in (declare(client, "b1"), declare(client, "b2")):
        client.ask(queue_bind(queue, "from", "#"))
    client.ask(ExchangeBind("to", "from", "a.*", False, {}))
    client.ask(queue_delete("b1"))
    client.ask(ExchangeDelete("from", False, False))
    events = [event for event in (yield) if event.kind != "delete"]
    assert shown(events, "queue", "exchange", "routing_key") == (
        "bind b1 from #, bind b2 from #, bind from a.*, unbind b1 from #, unbind b2 from #, unbind from a.*"
    )
    assert [json.loads(event.detail or "") for event in events[1:3]] == [
        {"type": "topic"},
        {"type": "topic", "to": "to"},
    ]


@story
def mixed_confirms(client: Client) -> Story:
    """A transient message is confirmed before the persistent one in front of it."""
    declare(client, "mixed")
    confirmed: list[int] = []
    client.ask(ConfirmSelect(False))
    client.publish(b"", key="mixed", properties=PERSISTENT)
    client.publish(b"", key="mixed")
    client.publish(b"", key="nowhere")
    while len(confirmed) < 3:
        answer = client.expect(BasicAck)
        tags = range(1, answer.delivery_tag + 1) if answer.multiple else [answer.delivery_tag]
        confirmed.extend(tag for tag in tags if tag not in confirmed)
    events = yield
    confirms = [event.msg_id for event in events if event.kind == "confirm"]
    assert confirms == confirmed


@story
def quorum(client: Client) -> Story:
    declare(client, "voted", queue_type="quorum")
    deposit(client, b"1", b"2", key="voted")
    client.send(get("voted"))
    client.expect_message(BasicGetOk)
    client.send(nack(1, requeue=True))
    assert drain(client, "voted") == [b"2", b"1"]
    events = yield
    events = [event for event in events if event.queue == "voted"]
    assert [event.msg_id for event in events] == [1, 2, 1, 1, 1, 2, 2, 3, 3]
    assert {event.reason for event in events if event.kind == "ack"} == {"automatic"}
    places = shown(events, "position")
    assert places == "route 1, route 2, deliver 1, requeue 1, route 3, deliver 2, ack 2, deliver 3, ack 3"


@story
def delayed(client: Client) -> Story:
    client.ask(exchange_declare("later", "x-delayed-message", durable=True, arguments={"x-delayed-type": "fanout"}))
    client.ask(queue_bind(declare(client, "due"), "later"))
    deposit(client, b"1", key="", exchange="later", properties=with_headers({"x-delay": 20}))
    eventually(lambda: ready(client, "due") == 1, "the message to be due")
    events = yield
    due = [event for event in events if event.kind != "confirm"]  # which comes when it is on disk, before or after
    assert len(events) == len(due) + 1
    waits = "delayed by exchange later"
    told = shown(due, "queue", "msg_id")
    assert told == f"bind due, publish 1, route {waits} 1, release {waits} 1, publish 2, route due 2"


@pytest.mark.parametrize("name", STORIES)
def test_a_story_is_recorded(recorded: Told, name: str) -> None:
    story, events = recorded.chapters[name]
    with pytest.raises(StopIteration):
        story.send(events)


def test_the_audit_has_nothing_against_what_was_recorded(recorded: Told) -> None:
    """Neither have the rules, nor their statement in SQL: returns, deaths of all kinds, moves, delays, transactions."""
    parts = parts_of(str(recorded.log))
    found = audit(map(reduce, parts))
    assert [row for row in found.rows.to_pylist() if row["violations"] or row["verdict"] == "lost"] == []
    oracle = sql_verdicts.of_oracle(sql_verdicts.events_of(parts))
    assert sql_verdicts.differences(oracle, sql_verdicts.of_rules(found)) == []


# Over restarts


@pytest.fixture
def recording(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that records events."""
    broker = recording_broker(tmp_path)
    broker.start()
    yield broker
    if broker.running:
        broker.kill()


def test_a_dead_letter_that_waits_has_a_place_of_its_own(recording: BrokerProcess) -> None:
    """Over a restart too, until somebody takes it."""
    client = Client.connect(recording.address)
    dead_letters = {
        "dead_letter_exchange": "",
        "dead_letter_routing_key": "dead",
        "dead_letter_strategy": "at-least-once",
    }
    declare(client, "q", queue_type="quorum", overflow="reject-publish", **dead_letters)
    deposit(client, b"1", key="q", properties=PERSISTENT)
    client.send(get("q"))
    client.expect_message(BasicGetOk)
    client.send(nack(1, requeue=False), get("q"))
    client.receive()
    client.close()
    recording.restart()
    client = Client.connect(recording.address)
    declare(client, "dead")
    eventually(lambda: ready(client, "dead"), "the dead letter to be taken")
    client.close()
    assert recording.stop() == 0
    waiting, taken = FIRST + 1, (2 << 40) + 1
    events = [event for event in events_of(recording) if event.kind not in ("boot", "declare", "snapshot", "stop")]
    assert shown(events[4:-1], "queue", "msg_id", "position") == (
        f"reject q {FIRST} {FIRST}, deadletter q {FIRST} {FIRST}, route q {FIRST} {waiting}, "
        f"queued q {waiting} {waiting}, queued q {waiting} {waiting}, "
        f"publish {taken}, route dead {taken} {taken}, release q {waiting} {waiting}"
    )
    assert shown(events[-1:], "queue") == "queued dead"


def test_the_arguments_in_force_are_recorded(recording: BrokerProcess) -> None:
    """By a declaration, when a policy changes them, and at each start; a message that may expire says so."""
    client = Client.connect(recording.address)
    declare(client, "argued", max_length=0, overflow="reject-publish", dead_letter_exchange="x" * 255)
    declare(client, "plain")
    limit = {"definition": {"message-ttl": 60_000}, "pattern": "^plain", "apply_to": "queues", "priority": 0}
    ask(recording.data_dir, "set_policy", {"vhost": "/", "name": "brief", **limit}, 30)
    deposit(client, b"1", key="plain")
    client.publish(b"2", key="plain", properties=PERSISTENT._replace(expiration="90000"))
    eventually(lambda: ready(client, "plain") == 2, "both messages")
    client.close()
    recording.restart()
    assert recording.stop() == 0
    events = events_of(recording)
    told = [(each.kind, each.queue, json.loads(each.detail or "")) for each in events if each.kind in SETTINGS]
    argued = {"max-length": 0, "overflow": "reject-publish", "dead-letter-exchange": "x" * 255}
    by_policy = {"arguments": {"message-ttl": 60_000}, "policy": "brief"}
    queue = {"type": "classic", "durable": True, "max_priority": 0}
    assert told[:3] == [
        ("declare", "argued", {**queue, "arguments": argued}),
        ("declare", "plain", {**queue, "arguments": {}}),
        ("policy", "plain", by_policy),
    ]
    assert sorted(told[3:]) == [
        ("declare", "argued", {**queue, "arguments": argued}),
        ("declare", "plain", {**queue, **by_policy}),
    ]
    details = [json.loads(event.detail or "") for event in events if event.kind == "publish"]
    assert details == [{"queues": 1}, {"queues": 1, "expires": True}]


def test_chosen_properties_are_recorded_with_publishes(tmp_path: Path) -> None:
    """Cut, with those of dead letters; of other messages that come with them in one read, their own."""
    names = ["message_id", "type", "headers.order", "headers.count", "headers.table"]
    broker = recording_broker(tmp_path, f"message_properties = {json.dumps(names)}\nmessage_property_bytes = 8\n")
    broker.start()
    client = Client.connect(broker.address)
    declare(client, "dead")
    declare(client, "brief", message_ttl=0, dead_letter_exchange="", dead_letter_routing_key="dead")
    headers = {"order": "17", "count": 3, "table": {"a": "b"}, "other": "x"}
    all_of_them = with_headers(headers)._replace(message_id="123456789", type="t\udcff", content_type="text/plain")
    client.publish(b"1", key="brief", properties=all_of_them)
    client.publish(b"2", key="dead")
    client.publish(b"3", key="dead", properties=PERSISTENT._replace(message_id="3", timestamp=1, user_id="guest"))
    eventually(lambda: ready(client, "dead") == 3, "the dead letter")
    client.close()
    assert broker.stop() == 0
    found = [json.loads(event.properties or "null") for event in events_of(broker) if event.kind == "publish"]
    first = {"message_id": "12345678", "type": "t\\xff", "headers.order": "17", "headers.count": "3"}
    assert sorted(found, key=str) == sorted([first, first, None, {"message_id": "3"}], key=str)
    assert all(event.properties is None for event in events_of(broker) if event.kind != "publish")


def test_nothing_happens_behind_the_record_of_a_stop(recording: BrokerProcess) -> None:
    """Not even delays that are over by then, one each millisecond."""
    client = Client.connect(recording.address)
    client.ask(exchange_declare("later", "x-delayed-message", durable=True, arguments={"x-delayed-type": "fanout"}))
    declare(client, "q")
    client.ask(queue_bind("q", "later"))
    for delay in range(1, 3000):
        client.publish(b"", exchange="later", properties=with_headers({"x-delay": delay}))
    eventually(lambda: ready(client, "q"), "a delay to be over")
    client.close()
    for _ in range(4):
        recording.restart()
    assert recording.stop() == 0
    found = [event for event in events_of(recording) if event.queue == "q"]
    for boot in range(1, 6):
        came = {event.position for event in found if event.kind == "route" and event.boot <= boot}
        assert {event.position for event in found if event.kind == "queued" and event.boot == boot} == came


def test_nothing_is_recorded_unasked(shared_process: BrokerProcess) -> None:
    assert not (shared_process.data_dir / "events").exists()
