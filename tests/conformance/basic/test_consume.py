"""basic.consume and what follows from it: tags, prefetch, order between consumers, cancelling."""

from __future__ import annotations

import pytest

from broker.wire.frames import content_frames, method_frame
from broker.wire.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsumeOk,
    BasicDeliver,
    BasicGetEmpty,
    BasicPublish,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
)
from broker.wire.properties import encode_header
from harness.brokers.rabbitmq_reference import REFERENCE
from harness.clients.amqp_peer import CAPABILITIES, publish_frames
from harness.clients.contents import flags
from harness.clients.queue_steps import bodies, deliveries, deposit, drain, fetch, ready
from harness.clients.shorthand import ack, consume, get, nack, prefetch, queue_declare, queue_delete
from harness.clients.wire_client import Client
from tests.conformance import Connect, Made

DRAWN = pytest.mark.skipif(bool(REFERENCE), reason="RabbitMQ draws who is next")


def delivered(client: Client, count: int, *, channel: int = 1) -> list[tuple[str, bytes]]:
    """Await `count` deliveries; return consumer tag and body of each."""
    messages = deliveries(client, count, channel=channel)
    return [(message.method.consumer_tag, message.body) for message in messages]


def test_messages_waiting_and_messages_coming(client: Client, queue: str) -> None:
    """0-9-1 specification, basic.consume: in order, with rising tags."""
    deposit(client, b"1", b"2", key=queue)
    assert client.ask(consume(queue, "t")).consumer_tag == "t"
    client.publish(b"3", key=queue)
    messages = deliveries(client, 3)
    assert bodies(messages) == [b"1", b"2", b"3"]
    assert [message.method for message in messages] == [BasicDeliver("t", tag, False, "", queue) for tag in (1, 2, 3)]


def test_a_consumer_without_a_tag_gets_one(client: Client, queue: str) -> None:
    """`amq.ctag-` and 22 characters of URL-safe base64 if it names none. Another channel may use the same."""
    tag = client.ask(consume(queue)).consumer_tag
    assert tag.startswith("amq.ctag-")
    assert len(tag) == len("amq.ctag-") + 22
    client.open_channel(2)
    client.ask(consume(queue, "t"), channel=1)
    client.ask(consume(queue, "t"), channel=2)
    assert client.refusal(consume(queue, "t"), channel=2) == (
        "connection 530 NOT_ALLOWED - attempt to reuse consumer tag 't'"
    )


@pytest.mark.parametrize("flag", ["no_wait", "no_local"])
def test_flags_that_change_no_delivery(client: Client, queue: str, flag: str) -> None:
    """0-9-1 specification, no-wait: there is no answer. RabbitMQ does not heed no-local."""
    client.send(consume(queue, "t", **{flag: True}))
    if flag != "no_wait":
        client.expect(BasicConsumeOk)
    client.publish(b"x", key=queue)
    assert delivered(client, 1) == [("t", b"x")]


def test_no_ack_needs_no_ack(client: Client, queue: str) -> None:
    """0-9-1 specification, no-ack: the message is gone with its delivery, and the tag is not known."""
    client.ask(consume(queue, "t", no_ack=True))
    client.publish(b"x", key=queue)
    assert delivered(client, 1) == [("t", b"x")]
    client.send(ack(1))
    assert client.closing(ack(1)) == "channel 406 PRECONDITION_FAILED - unknown delivery tag 1"


def test_consumers_take_turns(client: Client, queue: str) -> None:
    """0-9-1 specification, 4.7: round-robin."""
    for tag in "abc":
        client.ask(consume(queue, tag))
    for number in range(6):
        client.publish(str(number).encode(), key=queue)
    assert delivered(client, 6) == [
        ("a", b"0"), ("b", b"1"), ("c", b"2"), ("a", b"3"), ("b", b"4"), ("c", b"5"),
    ]  # fmt: skip


def test_prefetch_holds_for_each_consumer(client: Client, queue: str) -> None:
    """RabbitMQ's meaning of global=false: each consumer opened after it has the limit for itself."""
    client.open_channel(2)
    deposit(client, b"1", b"2", b"3", b"4", b"5", key=queue)
    client.ask(prefetch(2))
    client.ask(consume(queue, "a"))
    assert delivered(client, 2) == [("a", b"1"), ("a", b"2")]
    client.ask(prefetch(1))
    client.ask(consume(queue, "b"))
    assert delivered(client, 1) == [("b", b"3")]
    assert ready(client, queue, channel=2) == 2
    assert client.arrived() == []
    client.send(ack(3))
    assert delivered(client, 1) == [("b", b"4")]
    client.send(nack(1, requeue=False))
    assert delivered(client, 1) == [("a", b"5")]


def test_prefetch_of_a_channel_holds_for_all_its_consumers(client: Client, queue: str) -> None:
    """RabbitMQ's meaning of global=true: one limit over the channel, for consumers of before and after."""
    client.open_channel(2)
    client.ask(consume(queue, "a"))
    client.ask(prefetch(3, of_channel=True))
    client.ask(consume(queue, "b"))
    deposit(client, b"1", b"2", b"3", b"4", b"5", key=queue)
    assert delivered(client, 3) == [("a", b"1"), ("b", b"2"), ("a", b"3")]
    assert ready(client, queue, channel=2) == 2
    assert client.arrived() == []
    client.send(ack(2, multiple=True))
    assert [body for _, body in delivered(client, 2)] == [b"4", b"5"]
    deposit(client, b"6", b"7", key=queue)
    client.ask(prefetch(4, of_channel=True))
    assert [body for _, body in delivered(client, 1)] == [b"6"], "raised, it delivers at once"


def test_both_limits_at_once(client: Client, queue: str) -> None:
    """RabbitMQ: two for each consumer and three for the channel both hold."""
    client.open_channel(2)
    client.ask(prefetch(2))
    client.ask(prefetch(3, of_channel=True))
    client.ask(consume(queue, "a"))
    deposit(client, b"1", b"2", b"3", b"4", b"5", b"6", b"7", key=queue)
    assert delivered(client, 2) == [("a", b"1"), ("a", b"2")]
    assert ready(client, queue, channel=2) == 5
    client.send(ack(1), ack(2))
    assert delivered(client, 2) == [("a", b"3"), ("a", b"4")]
    client.ask(consume(queue, "b"))
    assert delivered(client, 1) == [("b", b"5")]
    assert ready(client, queue, channel=2) == 2
    assert client.arrived() == []


def test_what_prefetch_does_not_bind(client: Client, queue: str) -> None:
    """0-9-1 specification, basic.qos: 0 is no limit, and only deliveries that await an ack count."""
    client.ask(prefetch(1, of_channel=True))
    client.ask(prefetch(0, of_channel=True))
    client.ask(consume(queue, "t"))
    for _ in range(300):
        client.publish(b"x", key=queue)
    assert len(delivered(client, 300)) == 300
    client.ask(BasicCancel("t", False))
    client.ask(prefetch(1))
    client.ask(consume(queue, "t", no_ack=True))
    for _ in range(5):
        client.publish(b"x", key=queue)
    assert len(delivered(client, 5)) == 5
    client.ask(BasicCancel("t", False))
    deposit(client, b"1", b"2", key=queue)
    assert bodies(fetch(client, queue, 2)) == [b"1", b"2"]


def test_cancelling(client: Client, queue: str) -> None:
    """0-9-1 specification, basic.cancel: deliveries so far can be acknowledged, and the tag is free again.

    A tag that nobody has is no error.
    """
    client.ask(consume(queue, "t"))
    client.publish(b"1", key=queue)
    assert delivered(client, 1) == [("t", b"1")]
    assert client.ask(BasicCancel("t", False)) == BasicCancelOk("t")
    client.publish(b"2", key=queue)
    assert drain(client, queue) == [b"2"]
    client.send(ack(1), consume(queue, "t"))
    client.expect(BasicConsumeOk)
    client.send(BasicCancel("t", True), consume(queue, "t"))
    assert client.receive() == BasicConsumeOk("t")
    assert client.ask(BasicCancel("nobody", False)) == BasicCancelOk("nobody")


@pytest.mark.parametrize("told", [True, False])
def test_a_deleted_queue_cancels_its_consumers(connect: Connect, name: Made, told: bool) -> None:
    """`basic.cancel` with no-wait, to clients that said they can take it."""
    client, queue = connect(capabilities=CAPABILITIES | {"consumer_cancel_notify": told}, channels=(1, 2)), name()
    client.ask(queue_declare(queue, exclusive=True))
    client.ask(consume(queue, "t"))
    client.ask(queue_delete(queue), channel=2)
    if told:
        assert client.receive() == BasicCancel("t", True)
    client.ask(queue_declare(queue, exclusive=True))
    assert client.arrived() == []


@pytest.mark.parametrize("dropped", [False, True], ids=["channel closed", "connection dropped"])
def test_what_was_not_acknowledged_comes_again(connect: Connect, declare: Made, dropped: bool) -> None:
    """0-9-1 specification, 3.1.4: in order, and marked."""
    first, second, queue = connect(), connect(), declare()
    deposit(first, b"1", b"2", b"3", key=queue)
    first.ask(consume(queue, "t"))
    delivered(first, 3)
    first.send(ack(2))
    second.ask(consume(queue, "t"))
    if dropped:
        ready(first, queue)
        first.close()
    else:
        first.close_channel()
    assert flags(deliveries(second, 2)) == [(b"1", True), (b"3", True)]


def test_who_waits_comes_before_what_follows_the_publish(connect: Connect, name: Made) -> None:
    """A message that a consumer waits for is not there to be got, purged or counted."""
    consumer, publisher, queue = connect(), connect(), name()
    consumer.ask(queue_declare(queue))
    consumer.ask(consume(queue, "t", no_ack=True))
    for body, method, answer in (
        (b"1", get(queue), BasicGetEmpty()),
        (b"2", QueuePurge(queue, False), QueuePurgeOk(0)),
        (b"3", queue_delete(queue, if_empty=True), QueueDeleteOk(0)),
    ):
        publish = method_frame(1, BasicPublish("", queue, False, False)) + content_frames(1, encode_header(1), body, 0)
        publisher.send_raw(publish + method_frame(1, method))
        assert publisher.receive() == answer
    assert delivered(consumer, 3) == [("t", b"1"), ("t", b"2"), ("t", b"3")]


@DRAWN
@pytest.mark.parametrize("publishing", [False, True])
def test_a_limit_of_the_channel_is_shared_by_its_queues(client: Client, name: Made, publishing: bool) -> None:
    """The queue served longest ago is next, whatever comes with the ack."""
    queues = [str(client.ask(queue_declare(name(), exclusive=True)).queue) for _ in range(3)]
    for queue in queues:
        deposit(client, *[b"x"] * 5, key=queue)
    client.ask(prefetch(1, of_channel=True))
    for queue, tag in zip(queues, "abc", strict=True):
        client.send(consume(queue, tag, no_wait=True))
    served = []
    for number in range(9):
        served += [tag for tag, _ in delivered(client, 1)]
        also = publish_frames(b"x", key=queues[0]) if publishing else b""
        client.send_raw(also + method_frame(1, ack(number + 1)))
    assert {tag: served.count(tag) for tag in "abc"} == {"a": 3, "b": 3, "c": 3}, served


@DRAWN
def test_consumers_of_one_queue_share_a_limit_of_the_channel(client: Client, queue: str) -> None:
    deposit(client, *[b"x"] * 8, key=queue)
    client.ask(prefetch(1, of_channel=True))
    client.send(consume(queue, "1", no_wait=True), consume(queue, "2", no_wait=True))
    served = ""
    for number in range(8):
        served += delivered(client, 1)[0][0]
        client.send(ack(number + 1))
    assert served == "12121212"


def test_who_does_not_acknowledge_waits_for_the_limit_of_the_channel(client: Client, queue: str, name: Made) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    client.open_channel(2)
    other = str(client.ask(queue_declare(name(), exclusive=True)).queue)
    client.ask(prefetch(1, of_channel=True))
    client.ask(consume(queue, "ack"))
    client.ask(consume(other, "no ack", no_ack=True))
    deposit(client, b"1", key=other)
    deposit(client, b"2", key=queue)
    deposit(client, b"3", b"4", key=other)
    assert delivered(client, 2) == [("no ack", b"1"), ("ack", b"2")]
    assert ready(client, other) == 2
    client.send(ack(2))
    assert delivered(client, 2) == [("no ack", b"3"), ("no ack", b"4")]
