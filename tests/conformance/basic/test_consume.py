"""basic.consume and what follows from it: tags, prefetch, order between consumers, cancelling."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.wire.frames import content_frames, method_frame
from broker.wire.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGetEmpty,
    BasicGetOk,
    BasicPublish,
    BasicQos,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
)
from broker.wire.properties import encode_header
from harness.clients.amqp_peer import CAPABILITIES
from harness.clients.queue_steps import deposit, drain
from harness.clients.shorthand import (
    ack,
    consume,
    exchange_declare,
    get,
    nack,
    prefetch,
    queue_declare,
    queue_delete,
)
from harness.clients.wire_client import Client

Name = Callable[..., str]
Connect = Callable[..., Client]


@pytest.fixture
def queue(client: Client, name: Name) -> str:
    return str(client.ask(queue_declare(name(), exclusive=True)).queue)


def delivered(client: Client, count: int, *, channel: int = 1) -> list[tuple[str, bytes]]:
    """Await so many deliveries; return consumer tag and body of each."""
    messages = [client.expect_message(BasicDeliver, channel=channel) for _ in range(count)]
    return [(message.method.consumer_tag, message.body) for message in messages]


def ready(client: Client, queue: str) -> int:
    """Messages not delivered. The queue answers behind its own deliveries, so `arrived` is complete after this."""
    return int(client.ask(queue_declare(queue, passive=True), channel=2).message_count)


def test_messages_waiting_and_messages_coming(client: Client, queue: str) -> None:
    """0-9-1 specification, basic.consume: in order, with rising tags."""
    deposit(client, b"1", b"2", key=queue)
    assert client.ask(consume(queue, "t")).consumer_tag == "t"
    client.publish(b"3", key=queue)
    messages = [client.expect_message(BasicDeliver) for _ in range(3)]
    assert [message.body for message in messages] == [b"1", b"2", b"3"]
    assert [message.method for message in messages] == [BasicDeliver("t", tag, False, "", queue) for tag in (1, 2, 3)]


def test_a_consumer_without_a_tag_gets_one(client: Client, queue: str) -> None:
    """RabbitMQ 3.10.8 on the wire: amq.ctag- and 22 characters of URL-safe base64."""
    tag = client.ask(consume(queue)).consumer_tag
    assert tag.startswith("amq.ctag-")
    assert len(tag) == len("amq.ctag-") + 22


def test_a_tag_is_used_once_on_a_channel(connect: Connect, queue: str, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire; another channel may use the same."""
    client, shared = connect(channels=(1, 2)), name()
    client.ask(queue_declare(shared, auto_delete=True))
    client.ask(consume(shared, "t"), channel=1)
    client.ask(consume(shared, "t"), channel=2)
    assert client.refusal(consume(shared, "t"), channel=2) == (
        "connection 530 NOT_ALLOWED - attempt to reuse consumer tag 't'"
    )


def test_consuming_from_no_queue(client: Client, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    queue = name()
    assert client.refusal(consume(queue)) == f"channel 404 NOT_FOUND - no queue '{queue}' in vhost '/'"


def test_consuming_without_waiting(client: Client, queue: str) -> None:
    """0-9-1 specification, no-wait."""
    client.send(consume(queue, "t", no_wait=True))
    client.publish(b"x", key=queue)
    assert delivered(client, 1) == [("t", b"x")]


def test_no_ack_needs_no_ack(client: Client, queue: str) -> None:
    """0-9-1 specification, no-ack: the message is gone with its delivery, and the tag is not known."""
    client.ask(consume(queue, "t", no_ack=True))
    client.publish(b"x", key=queue)
    assert delivered(client, 1) == [("t", b"x")]
    client.send(ack(1))
    assert client.closing(ack(1)) == "channel 406 PRECONDITION_FAILED - unknown delivery tag 1"


def test_an_exclusive_consumer_is_alone(client: Client, queue: str) -> None:
    """RabbitMQ 3.10.8 on the wire, both ways round."""
    refused = f"channel 403 ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use"
    client.open_channel(2)
    client.ask(consume(queue, "alone", exclusive=True))
    assert client.refusal(consume(queue, "other"), channel=2) == refused
    assert client.refusal(consume(queue, "other", exclusive=True), channel=2) == refused
    client.ask(BasicCancel("alone", False))
    client.ask(consume(queue, "first"))
    assert client.refusal(consume(queue, "second", exclusive=True), channel=2) == refused


def test_get_passes_an_exclusive_consumer(client: Client, queue: str) -> None:
    """RabbitMQ 3.10.8 on the wire: exclusivity is among consumers."""
    client.ask(prefetch(1))
    client.ask(consume(queue, "t", exclusive=True))
    client.publish(b"1", key=queue)
    client.publish(b"2", key=queue)
    assert delivered(client, 1) == [("t", b"1")]
    assert drain(client, queue) == [b"2"]


def test_consumers_take_turns(client: Client, queue: str) -> None:
    """0-9-1 specification, 4.7: round-robin."""
    for tag in "abc":
        client.ask(consume(queue, tag))
    for number in range(6):
        client.publish(str(number).encode(), key=queue)
    assert delivered(client, 6) == [
        ("a", b"0"), ("b", b"1"), ("c", b"2"), ("a", b"3"), ("b", b"4"), ("c", b"5"),
    ]  # fmt: skip


def test_a_higher_priority_goes_first(client: Client, queue: str) -> None:
    """RabbitMQ's consumer priorities: lower ones get a message only when no higher one can take it."""
    client.ask(prefetch(2))
    client.ask(consume(queue, "low", arguments={"x-priority": -1}))
    client.ask(consume(queue, "none"))
    client.ask(consume(queue, "high", arguments={"x-priority": 5}))
    for number in range(6):
        client.publish(str(number).encode(), key=queue)
    assert [tag for tag, _ in delivered(client, 6)] == ["high", "high", "none", "none", "low", "low"]


def test_a_priority_that_is_no_integer(client: Client, queue: str) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    assert client.refusal(consume(queue, "t", arguments={"x-priority": "high"})) == (
        f"channel 406 PRECONDITION_FAILED - invalid arg 'x-priority' for queue '{queue}' in vhost '/': "
        '"expected integer, got longstr"'
    )


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
    assert ready(client, queue) == 2
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
    assert ready(client, queue) == 2
    assert client.arrived() == []
    client.send(ack(2, multiple=True))
    assert [body for _, body in delivered(client, 2)] == [b"4", b"5"]


def test_both_limits_at_once(client: Client, queue: str) -> None:
    """RabbitMQ: the channel's limit and the consumer's own both hold."""
    client.open_channel(2)
    client.ask(prefetch(2))
    client.ask(prefetch(3, of_channel=True))
    client.ask(consume(queue, "a"))
    deposit(client, b"1", b"2", b"3", b"4", b"5", b"6", key=queue)
    assert delivered(client, 2) == [("a", b"1"), ("a", b"2")]
    assert ready(client, queue) == 4
    client.send(ack(1), ack(2))
    assert delivered(client, 2) == [("a", b"3"), ("a", b"4")]
    assert ready(client, queue) == 2
    assert client.arrived() == []


def test_the_limit_of_the_channel_stops_a_consumer_with_credit(client: Client, queue: str) -> None:
    """RabbitMQ 3.10.8 on the wire: two for each, three for all."""
    client.open_channel(2)
    client.ask(prefetch(2))
    client.ask(prefetch(3, of_channel=True))
    client.ask(consume(queue, "a"))
    client.ask(consume(queue, "b"))
    deposit(client, b"1", b"2", b"3", b"4", b"5", key=queue)
    assert delivered(client, 3) == [("a", b"1"), ("b", b"2"), ("a", b"3")]
    assert ready(client, queue) == 2
    assert client.arrived() == []


def test_a_new_prefetch_leaves_older_consumers_alone(client: Client, queue: str) -> None:
    """RabbitMQ: global=false counts for the consumers opened after it."""
    client.open_channel(2)
    client.ask(prefetch(1))
    client.ask(consume(queue, "t"))
    client.ask(prefetch(5))
    deposit(client, b"1", b"2", key=queue)
    assert delivered(client, 1) == [("t", b"1")]
    assert ready(client, queue) == 1
    assert client.arrived() == []


def test_prefetch_zero_is_no_limit(client: Client, queue: str) -> None:
    """0-9-1 specification, basic.qos."""
    client.ask(prefetch(1, of_channel=True))
    client.ask(prefetch(0, of_channel=True))
    client.ask(consume(queue, "t"))
    for _ in range(300):
        client.publish(b"x", key=queue)
    assert len(delivered(client, 300)) == 300


def test_prefetch_does_not_bind_get_and_no_ack(client: Client, queue: str) -> None:
    """0-9-1 specification, basic.qos: only deliveries that await an ack count."""
    client.ask(prefetch(1))
    client.ask(consume(queue, "t", no_ack=True))
    for _ in range(5):
        client.publish(b"x", key=queue)
    assert len(delivered(client, 5)) == 5
    client.ask(BasicCancel("t", False))
    deposit(client, b"1", b"2", key=queue)
    for body in (b"1", b"2"):
        client.send(get(queue))
        assert client.expect_message(BasicGetOk).body == body


def test_prefetch_by_size_is_not_offered(client: Client) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    assert client.refusal(BasicQos(1, 0, False)) == "connection 540 NOT_IMPLEMENTED - prefetch_size!=0 (1)"


def test_cancelling_keeps_what_is_unacknowledged(client: Client, queue: str) -> None:
    """0-9-1 specification, basic.cancel: deliveries so far stay with the channel and can be acknowledged."""
    client.ask(consume(queue, "t"))
    client.publish(b"1", key=queue)
    assert delivered(client, 1) == [("t", b"1")]
    assert client.ask(BasicCancel("t", False)) == BasicCancelOk("t")
    client.publish(b"2", key=queue)
    assert drain(client, queue) == [b"2"]
    client.send(ack(1))
    client.ask(exchange_declare("amq.direct", passive=True))


def test_cancelling_an_unknown_tag(client: Client) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    assert client.ask(BasicCancel("nobody", False)) == BasicCancelOk("nobody")


def test_cancelling_without_waiting(client: Client, queue: str) -> None:
    """0-9-1 specification, no-wait; the tag is free again."""
    client.ask(consume(queue, "t"))
    client.send(BasicCancel("t", True))
    client.send(consume(queue, "t"))
    assert client.receive() == BasicConsumeOk("t")


def test_a_deleted_queue_cancels_its_consumers(client: Client, queue: str) -> None:
    """RabbitMQ 3.10.8 on the wire: basic.cancel with no-wait, to clients that said they can take it."""
    client.open_channel(2)
    client.ask(consume(queue, "t"))
    client.ask(queue_delete(queue), channel=2)
    assert client.receive() == BasicCancel("t", True)
    client.ask(exchange_declare("amq.direct", passive=True))


def test_clients_without_the_capability_are_not_told(connect: Connect, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    capabilities = CAPABILITIES | {"consumer_cancel_notify": False}
    client, queue = connect(capabilities=capabilities, channels=(1, 2)), name()
    client.ask(queue_declare(queue, exclusive=True))
    client.ask(consume(queue, "t"))
    client.ask(queue_delete(queue), channel=2)
    client.ask(queue_declare(queue, exclusive=True))
    client.ask(consume(queue, "t2"))
    assert client.arrived() == []


def test_no_local_is_ignored(client: Client, queue: str) -> None:
    """RabbitMQ: the flag has no effect."""
    client.ask(consume(queue, "t", no_local=True))
    client.publish(b"x", key=queue)
    assert delivered(client, 1) == [("t", b"x")]


def test_a_closed_channel_gives_its_messages_back(client: Client, queue: str) -> None:
    """0-9-1 specification, 3.1.4: what was not acknowledged is delivered again, in order, and marked."""
    client.open_channel(2)
    deposit(client, b"1", b"2", b"3", key=queue)
    client.ask(consume(queue, "t"), channel=2)
    delivered(client, 3, channel=2)
    client.send(ack(2), channel=2)
    client.close_channel(2)
    client.ask(consume(queue, "t"))
    messages = [client.expect_message(BasicDeliver) for _ in range(2)]
    assert [(message.body, message.method.redelivered) for message in messages] == [(b"1", True), (b"3", True)]


@pytest.mark.parametrize("how", ["get", "consume"])
def test_a_failed_channel_gives_its_messages_back(client: Client, queue: str, how: str) -> None:
    """RabbitMQ 3.10.8 on the wire: at the latest when the client has answered the close."""
    client.open_channel(2)
    deposit(client, b"1", key=queue)
    if how == "get":
        client.send(get(queue))
        client.expect_message(BasicGetOk)
    else:
        client.ask(consume(queue, "first"))
        client.expect_message(BasicDeliver)
    client.ask(consume(queue, "second"), channel=2)
    assert client.refusal(ack(99)) == "channel 406 PRECONDITION_FAILED - unknown delivery tag 99"
    message = client.expect_message(BasicDeliver, channel=2)
    assert (message.body, message.method) == (b"1", BasicDeliver("second", 1, True, "", queue))


def test_a_dropped_connection_gives_its_messages_back(connect: Connect, name: Name) -> None:
    """0-9-1 specification, 3.1.4."""
    first, second, queue = connect(), connect(), name()
    first.ask(queue_declare(queue))
    deposit(first, b"1", b"2", key=queue)
    first.ask(consume(queue, "t"))
    delivered(first, 2)
    second.ask(consume(queue, "t"))
    first.close()
    messages = [second.expect_message(BasicDeliver) for _ in range(2)]
    assert [(message.body, message.method.redelivered) for message in messages] == [(b"1", True), (b"2", True)]
    second.ask(queue_delete(queue))


def test_consumers_on_two_channels_take_turns(client: Client, queue: str) -> None:
    """0-9-1 specification, 4.7."""
    client.open_channel(2)
    client.ask(consume(queue, "a"), channel=1)
    client.ask(consume(queue, "b"), channel=2)
    deposit(client, b"1", b"2", b"3", b"4", key=queue)
    assert delivered(client, 2, channel=1) == [("a", b"1"), ("a", b"3")]
    assert delivered(client, 2, channel=2) == [("b", b"2"), ("b", b"4")]


def test_who_waits_comes_before_what_follows_the_publish(connect: Connect, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire: a message that a consumer waits for is not there to be got, purged or counted."""
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


def test_declare_counts_consumers(client: Client, queue: str) -> None:
    """0-9-1 specification, queue.declare-ok."""
    for number in range(3):
        client.ask(consume(queue, f"t{number}"))
    assert client.ask(queue_declare(queue, passive=True)).consumer_count == 3


def test_consume_names_its_method_when_refused(client: Client, queue: str) -> None:
    """RabbitMQ 3.10.8 on the wire: the pseudo-queue for direct replies must be consumed without acks."""
    assert client.refusal(consume("amq.rabbitmq.reply-to")) == (
        "channel 406 PRECONDITION_FAILED - reply consumer cannot acknowledge"
    )
    client.ask(consume("amq.rabbitmq.reply-to", no_ack=True))
    client.send(consume("amq.rabbitmq.reply-to", no_ack=True))
    assert client.closing(BasicConsume) == "channel 406 PRECONDITION_FAILED - reply consumer already set"
