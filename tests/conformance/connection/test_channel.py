"""Channels: opening, closing, numbers, and how far an error reaches."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.wire.frames import content_frames, method_frame
from broker.wire.method import Method
from broker.wire.methods import (
    AccessRequest,
    AccessRequestOk,
    BasicCancelOk,
    BasicGetOk,
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionTuneOk,
)
from broker.wire.properties import encode_header
from harness.clients.shorthand import ack, consume, exchange_declare, get, queue_declare
from harness.clients.wire_client import Client
from harness.waiting import eventually


def test_closing_and_opening_again(client: Client) -> None:
    """0-9-1 specification, channel.close; the number is free at once."""
    client.send(ChannelClose(200, "done", 0, 0))
    client.expect(ChannelCloseOk)
    client.open_channel(1)


def test_a_second_open(client: Client) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    assert client.refusal(ChannelOpen()) == "connection 504 CHANNEL_ERROR - second 'channel.open' seen"


def test_a_method_before_open(client: Client) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    assert client.refusal(queue_declare("q"), channel=2) == "connection 504 CHANNEL_ERROR - expected 'channel.open'"


def test_channels_are_counted_not_numbered(connect: Callable[..., Client]) -> None:
    """RabbitMQ 3.10.8 on the wire: any number goes, as long as no more than channel-max are open."""
    client = connect(tune=ConnectionTuneOk(2, 131072, 0), channels=(7, 40000))
    client.send(ChannelOpen(), channel=3)
    assert client.closing(channel=3) == (
        "connection 530 NOT_ALLOWED - number of channels opened (2) has reached the negotiated channel_max (2)"
    )


def test_flow_is_on_and_stays_on(client: Client) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    client.send(ChannelFlow(True))
    assert client.expect(ChannelFlowOk).active is True
    assert client.refusal(ChannelFlow(False)) == "connection 540 NOT_IMPLEMENTED - active=false"


def test_an_error_ends_one_channel_only(connect: Callable[..., Client], name: Callable[..., str]) -> None:
    """0-9-1 specification, 1.2: a channel exception leaves the other channels and connections alone."""
    client = connect(channels=(1, 2))
    missing = name()
    client.send(get(missing), channel=1)
    close = client.expect(ChannelClose, channel=1)
    assert (close.reply_code, close.reply_text) == (404, f"NOT_FOUND - no queue '{missing}' in vhost '/'")
    client.ask(queue_declare(name(), exclusive=True), channel=2)


def test_what_follows_an_error_is_thrown_away_until_close_ok(client: Client, name: Callable[..., str]) -> None:
    """RabbitMQ 3.10.8 on the wire: a later publish and declare on the channel have no effect at all."""
    queue, missing, never = name(), name(), name()
    client.ask(queue_declare(queue, exclusive=True))
    publish = method_frame(1, BasicPublish("", queue, False, False)) + content_frames(1, encode_header(1), b"x", 0)
    client.send_raw(method_frame(1, get(missing)) + publish + method_frame(1, queue_declare(never, durable=True)))
    assert client.closing(get(missing)) == f"channel 404 NOT_FOUND - no queue '{missing}' in vhost '/'"
    assert client.ask(queue_declare(queue, passive=True)).message_count == 0
    assert client.refusal(queue_declare(never, passive=True)).startswith("channel 404")


def test_both_sides_closing_at_once(client: Client, name: Callable[..., str]) -> None:
    """RabbitMQ 3.10.8 on the wire: the client's close is answered, and its close-ok still awaited."""
    client.send(get(name()), ChannelClose(200, "", 0, 0))
    client.expect(ChannelClose)
    client.expect(ChannelCloseOk)
    client.send(ChannelCloseOk(), ChannelOpen())
    client.expect(ChannelOpenOk)
    client.ask(exchange_declare("amq.direct", passive=True))


def test_access_request_is_answered_for_old_clients(client: Client) -> None:
    """RabbitMQ 3.10.8 on the wire; the method left the specification with 0-9-1."""
    client.send(AccessRequest("/data", False, True, True, True, True))
    assert client.expect(AccessRequestOk).ticket == 1


@pytest.mark.parametrize(
    "method", [ChannelOpenOk(), ChannelFlowOk(True), ChannelCloseOk(), BasicCancelOk("t")], ids=lambda m: m.NAME
)
def test_an_answer_that_nobody_asked_for(client: Client, method: Method) -> None:
    """RabbitMQ 3.10.8 on the wire. It sends basic.cancel with no-wait, so that even then a cancel-ok is unasked for."""
    assert client.refusal(method) == "connection 503 COMMAND_INVALID - unimplemented method"


def test_what_a_failed_channel_had_fetched_waits_for_close_ok(client: Client, name: Callable[..., str]) -> None:
    """RabbitMQ 3.10.8 on the wire: queues that the channel consumes from get everything back at once, others later."""
    consumed, fetched = name(), name()
    client.open_channel(2)
    for queue in (consumed, fetched):
        client.ask(queue_declare(queue, exclusive=True))
        client.publish(b"x", key=queue)
        client.send(get(queue))
        client.expect_message(BasicGetOk)
    client.ask(consume(consumed, "t"))
    client.send(ack(99))
    client.expect(ChannelClose)

    def ready(queue: str) -> int:
        return int(client.ask(queue_declare(queue, passive=True), channel=2).message_count)

    eventually(lambda: ready(consumed) == 1, "the consumed queue to have its message back")
    assert ready(fetched) == 0
    client.send(ChannelCloseOk())
    eventually(lambda: ready(fetched) == 1, "the other queue to have its message back")


@pytest.mark.parametrize("count", [100])
def test_many_channels(connect: Callable[..., Client], name: Callable[..., str], count: int) -> None:
    """0-9-1 specification, 2.2.2: channels work side by side."""
    client = connect(channels=range(1, count + 1))
    queues = [name() for _ in range(count)]
    for channel, queue in enumerate(queues, 1):
        client.send(queue_declare(queue, exclusive=True), channel=channel)
    answers = [client.receive(channel=channel) for channel in range(1, count + 1)]
    assert [getattr(answer, "queue", None) for answer in answers] == queues
