"""Events to assert on; and waiting for them in place of sleeping."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from broker.wire.methods import BasicAck, BasicConsumeOk, ConfirmSelect
from broker.wire.properties import BasicProperties
from harness.clients.queue_steps import deliveries, deposit, fetch
from harness.clients.shorthand import ack, consume, nack, queue_declare, queue_delete
from harness.clients.wire_client import Client
from tests.conformance.testing.conftest import Orders


def words(order: Orders, **which: Any) -> list[str]:
    """The events that there are, in order."""
    return [event["event"] for event in history(order, **which)]


def history(order: Orders, **which: Any) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = order("history", method="GET", **which)["events"]
    return events


def test_a_message_is_followed_from_its_publish_to_its_ack(order: Orders, client: Client) -> None:
    client.ask(queue_declare("q"))
    client.ask(ConfirmSelect(False))
    client.publish(b"hello", key="q", properties=BasicProperties(message_id="m1"))
    client.expect(BasicAck)
    client.send(consume("q", "tag"))
    client.expect(BasicConsumeOk)
    (message,) = deliveries(client, 1)
    client.send(ack(message.method.delivery_tag))
    order("expect", event="acked", queue="q")
    assert words(order) == ["declared", "published", "routed", "confirmed", "delivered", "acked"]
    published, delivered = history(order, bodies=True)[1], history(order)[4]
    assert (published["routing_key"], published["bytes"], published["payload"]) == ("q", 5, "hello")
    assert published["properties"] == {"message_id": "m1"}
    assert delivered["message"] == published["message"]
    assert (delivered["queue"], delivered["consumer_tag"], delivered["redelivered"]) == ("q", "tag", False)
    assert "payload" not in delivered
    last = order("history", method="DELETE")["last"]
    assert history(order) == []
    client.ask(queue_delete("q"))
    assert [event["id"] for event in history(order, after=last)] == [last + 1]


def test_the_ways_a_message_ends_have_each_their_word(order: Orders, client: Client) -> None:
    def declared(name: str, **arguments: Any) -> None:
        table = {"x-" + key.replace("_", "-"): value for key, value in arguments.items()}
        client.ask(queue_declare(name, arguments=table))

    declared("dead")
    declared("short", message_ttl=1000, dead_letter_exchange="", dead_letter_routing_key="dead")
    declared("one", max_length=1)
    declared("plain")
    deposit(client, b"1", key="short")
    deposit(client, b"1", b"2", key="one")
    deposit(client, b"1", key="plain")
    client.publish(b"x", key="nowhere", mandatory=True)
    (message,) = fetch(client, "plain") if client.receive() else ()
    client.send(nack(message.method.delivery_tag, requeue=True))
    (message,) = fetch(client, "plain")
    client.send(nack(message.method.delivery_tag, requeue=False))
    client.ask(ConfirmSelect(False))
    order("clock/step", seconds=2)
    assert words(order, queue="short")[-3:] == ["routed", "expired", "dead-lettered"]
    assert words(order, queue="one") == ["declared", "routed", "routed", "dropped"]
    assert [word for word in words(order, queue="plain") if word not in ("declared", "routed")] == [
        "delivered", "requeued", "delivered", "rejected",
    ]  # fmt: skip
    assert words(order, routing_key="nowhere") == ["published", "returned"]
    (dead_letter,) = history(order, event="dead-lettered")
    assert (dead_letter["reason"], dead_letter["to_exchange"]) == ("expired", "")
    assert words(order, queue="dead") == ["declared", "routed"]


@pytest.mark.parametrize(
    ("wanted", "seen"),
    [
        ({"event": "acked", "queue": "q"}, "expected 1 of these events, saw 0; in all there were: declared 1, published 2"),
        ({"event": "published", "count": 3}, "expected 3 of these events, saw 2"),
        ({"event": "published", "body": "three"}, "saw 0"),
        ({"queue": "q", "ready": 0, "consumers": 1}, "of queue 'q', saw ready 2, unacked 0, messages 2, consumers 0"),
        ({"queue": "other", "ready": 0}, "there is no queue 'other' in vhost '/'"),
    ],
)  # fmt: skip
def test_what_does_not_come_is_answered_with_what_did(
    order: Orders, client: Client, wanted: dict[str, Any], seen: str
) -> None:
    client.ask(queue_declare("q"))
    deposit(client, b"one", b"two", key="q")
    problem = order("expect", status=409, timeout_seconds=0.05, **wanted)
    assert problem.startswith("within 0.05 s: expected")
    assert seen in problem


def test_expecting_waits_in_the_broker(order: Orders, client: Client) -> None:
    client.ask(queue_declare("q"))
    found: list[Any] = []
    waiting = [
        threading.Thread(target=lambda: found.append(order("expect", event="published", count=3, body="late"))),
        threading.Thread(target=lambda: found.append(order("expect", queue="q", ready=3))),
    ]
    for thread in waiting:
        thread.start()
    deposit(client, *[b"late"] * 3, key="q")
    for thread in waiting:
        thread.join()
    assert {len(answer.get("events", "123")) for answer in found} == {3}


def test_idle_is_when_nothing_is_on_its_way(order: Orders, client: Client) -> None:
    client.ask(queue_declare("q"))
    deposit(client, b"1", key="q")
    order("idle")  # a message for which there is no consumer is at rest
    (message,) = fetch(client, "q")
    assert "queue 'q' has ready 0, unacked 1" in order("idle", status=409, timeout_seconds=0.05)
    client.send(ack(message.method.delivery_tag))
    assert order("idle")["milliseconds"] >= 20


@pytest.mark.parametrize(
    ("path", "arguments", "reason"),
    [
        ("expect", {}, "expected the argument event, or queue with one of ready, unacked, messages, consumers"),
        ("expect", {"queue": "q"}, "expected of a queue one of ready, unacked, messages, consumers"),
        ("expect", {"event": "eaten"}, "argument event: expected one of declared, published, routed"),
        ("expect", {"events": "acked"}, "expect takes no argument events"),
        ("idle", {"timeout_seconds": 601}, "argument timeout_seconds: expected a number from 0 to 600"),
    ],
)
def test_what_cannot_be_expected_is_refused(order: Orders, path: str, arguments: dict[str, Any], reason: str) -> None:
    assert reason in order(path, status=400, **arguments)
