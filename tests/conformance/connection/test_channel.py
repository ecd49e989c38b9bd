"""Channels: opening, closing, numbers, and how far an error reaches."""

from __future__ import annotations

import pytest

from broker.wire.frames import content_frames, method_frame
from broker.wire.method import Method
from broker.wire.methods import (
    AccessRequest,
    BasicCancelOk,
    BasicPublish,
    BasicQos,
    BasicRecover,
    BasicRecoverAsync,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
)
from broker.wire.properties import encode_header
from harness.clients.queue_steps import deposit, fetch, ready
from harness.clients.shorthand import ack, consume, get, queue_declare
from harness.clients.wire_client import Client
from harness.waiting import eventually
from tests.conformance import Connect, Made

SECOND = "504 CHANNEL_ERROR - second 'channel.open' seen"
NOT_OPEN = "504 CHANNEL_ERROR - expected 'channel.open'"
OUT_OF_PLACE = "504 CHANNEL_ERROR - unexpected method in connection state running"
UNASKED = "503 COMMAND_INVALID - unimplemented method"


@pytest.mark.parametrize(
    ("channel", "method", "text"),
    [
        (1, ChannelOpen(), SECOND),
        (2, queue_declare("q"), NOT_OPEN),
        (0, queue_declare("q"), OUT_OF_PLACE),
        (0, ConnectionOpen("/"), OUT_OF_PLACE),
        (0, ConnectionTuneOk(10, 4096, 0), OUT_OF_PLACE),
        (0, ConnectionStartOk({}, "PLAIN", b"\0guest\0guest", "en_US"), OUT_OF_PLACE),
        (0, ConnectionBlocked("no"), OUT_OF_PLACE),
        *((1, method, UNASKED) for method in (ConnectionClose(200, "", 0, 0), ChannelOpenOk(), ChannelFlowOk(True))),
        *((1, method, UNASKED) for method in (ChannelCloseOk(), BasicCancelOk("t"))),
        (1, ChannelFlow(False), "540 NOT_IMPLEMENTED - active=false"),
        (1, BasicQos(1, 0, False), "540 NOT_IMPLEMENTED - prefetch_size!=0 (1)"),
        (1, BasicRecover(False), "540 NOT_IMPLEMENTED - requeue=false"),
        (1, BasicRecoverAsync(False), "540 NOT_IMPLEMENTED - requeue=false"),
    ],
    ids=lambda value: getattr(value, "NAME", ""),
)
def test_methods_that_end_the_connection(client: Client, channel: int, method: Method, text: str) -> None:
    """In the wrong place, unasked for, a server's own, or not offered.

    Servers send basic.cancel with no-wait, so that even then a cancel-ok is unasked for.
    """
    assert client.refusal(method, channel=channel) == f"connection {text}"


def test_channels_are_counted_not_numbered(connect: Connect) -> None:
    """Any number goes, as long as no more than channel-max are open."""
    client = connect(tune=ConnectionTuneOk(2, 131072, 0), channels=(7, 40000))
    client.send(ChannelOpen(), channel=3)
    assert client.closing(channel=3) == (
        "connection 530 NOT_ALLOWED - number of channels opened (2) has reached the negotiated channel_max (2)"
    )


def test_flow_is_on_and_access_is_granted(client: Client) -> None:
    """For old clients: access.request left the specification with 0-9-1."""
    assert client.ask(ChannelFlow(True)).active is True
    assert client.ask(AccessRequest("/data", False, True, True, True, True)).ticket == 1


def test_what_follows_an_error_is_thrown_away_until_close_ok(client: Client, queue: str, name: Made) -> None:
    """A later publish and declare on the channel have no effect at all.

    0-9-1 specification, 1.2: a channel exception leaves the other channels alone.
    """
    missing, never = name(), name()
    client.open_channel(2)
    publish = method_frame(1, BasicPublish("", queue, False, False)) + content_frames(1, encode_header(1), b"x", 0)
    client.send_raw(method_frame(1, get(missing)) + publish + method_frame(1, queue_declare(never, durable=True)))
    assert client.ask(queue_declare(queue, passive=True), channel=2).message_count == 0
    assert client.closing(get(missing)) == f"channel 404 NOT_FOUND - no queue '{missing}' in vhost '/'"
    assert client.ask(queue_declare(queue, passive=True)).message_count == 0
    assert client.refusal(queue_declare(never, passive=True)).startswith("channel 404")


def test_both_sides_closing_at_once(client: Client, name: Made) -> None:
    """The client's close is answered, and its close-ok still awaited."""
    client.send(get(name()), ChannelClose(200, "", 0, 0))
    client.expect(ChannelClose)
    client.expect(ChannelCloseOk)
    client.send(ChannelCloseOk(), ChannelOpen())
    client.expect(ChannelOpenOk)


def test_what_a_failed_channel_had_fetched_waits_for_close_ok(client: Client, new_queue: Made) -> None:
    """Queues that the channel consumes from get everything back at once, others later."""
    consumed, fetched = new_queue(), new_queue()
    client.open_channel(2)
    for queue in (consumed, fetched):
        deposit(client, b"x", key=queue)
        fetch(client, queue)
    client.ask(consume(consumed, "t"))
    client.send(ack(99))
    client.expect(ChannelClose)
    eventually(lambda: ready(client, consumed, channel=2) == 1, "the consumed queue to have its message back")
    assert ready(client, fetched, channel=2) == 0
    client.send(ChannelCloseOk())
    eventually(lambda: ready(client, fetched, channel=2) == 1, "the other queue to have its message back")
