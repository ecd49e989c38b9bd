"""The broker's clock in the hands of a test. Timers that are due run, in their order, before the request is
answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.wire.field_tables import from_python, to_python
from broker.wire.methods import BasicConsumeOk, ChannelClose, ConfirmSelect
from broker.wire.properties import BasicProperties
from harness.clients.amqp_peer import Message
from harness.clients.queue_steps import bodies, deliveries, deposit, drain_messages, fetch
from harness.clients.shorthand import consume, exchange_declare, nack, queue_bind, queue_declare
from harness.clients.wire_client import Client
from tests.conformance import Connect
from tests.conformance.testing.conftest import Orders

DAY = 86_400


def declared(client: Client, name: str, **arguments: Any) -> str:
    """A durable queue; `message_ttl=3` is the argument x-message-ttl."""
    table = {"x-" + key.replace("_", "-"): value for key, value in arguments.items()}
    client.ask(queue_declare(name, durable=True, arguments=table))
    return name


def x_death(message: Message) -> list[dict[str, Any]]:
    """The entries of the header."""
    entries: list[dict[str, Any]] = to_python(message.properties.headers or {})["x-death"]
    return entries


def names(order: Orders) -> set[str]:
    """The queues that there are."""
    return {queue["name"] for queue in order.api("queues")}


def test_a_stopped_clock_stands_still_and_goes_on_from_there(order: Orders) -> None:
    stopped = order("clock/stop")
    assert stopped["stopped"]
    assert order("clock", method="GET")["now"] == stopped["now"]
    assert order("clock/step", seconds=0.25)["milliseconds"] == stopped["milliseconds"] + 250
    assert order("clock/set", to="2001-02-03T04:05:06Z")["now"] == "2001-02-03T04:05:06.000Z"
    assert order("clock/set", to=981_173_106_500)["now"] == "2001-02-03T04:05:06.500Z"
    assert order("clock/start")["now"].startswith("2001-02-03T04:05:")
    assert abs(order("reset") and order("clock", method="GET")["ahead_seconds"]) < 1


def test_the_clock_goes_back_only_while_it_is_stopped(order: Orders) -> None:
    assert "a running clock cannot be set back: stop it first" in order(
        "clock/set", to="2001-01-01T00:00:00Z", status=400
    )
    order("clock/stop")
    order("clock/set", to="2001-01-01T00:00:00Z")


@pytest.mark.parametrize("stopped", [False, True])
def test_what_has_a_time_to_live_has_gone_when_a_step_is_answered(
    order: Orders, client: Client, *, stopped: bool
) -> None:
    """Messages by the queue's time and by their own; and a queue by its x-expires."""
    declared(client, "by-queue", message_ttl=60_000)
    declared(client, "by-message")
    declared(client, "unused", expires=120_000)
    deposit(client, b"1", b"2", key="by-queue")
    deposit(client, b"1", key="by-message", properties=BasicProperties(expiration="60000"))
    if stopped:
        order("clock/stop")
    order("clock/step", seconds=59 if stopped else 30)
    assert [order.api(f"queues/%2F/{queue}")["messages"] for queue in ("by-queue", "by-message")] == [2, 1]
    order("clock/step", seconds=31)
    assert [order.api(f"queues/%2F/{queue}")["messages"] for queue in ("by-queue", "by-message")] == [0, 0]
    assert "unused" in names(order)
    order("clock/step", seconds=60)
    assert names(order) == {"by-queue", "by-message"}


def test_a_day_of_retries_takes_one_step_and_keeps_their_order(order: Orders, client: Client) -> None:
    """24 queues, in each of which a message waits for an hour; two messages, half an hour apart."""
    hours = [declared(client, f"hour-{hour}", message_ttl=3_600_000, dead_letter_exchange="",
                      dead_letter_routing_key=f"hour-{hour + 1}" if hour < 23 else "end") for hour in range(24)]  # fmt: skip
    declared(client, "end")
    order("clock/stop")
    deposit(client, b"first", key=hours[0])
    order("clock/step", seconds=1800)
    deposit(client, b"second", key=hours[0])
    order("clock/step", seconds=DAY - 1801)
    assert order.api("queues/%2F/end")["messages"] == 0
    order("clock/step", seconds=1)
    assert order.api("queues/%2F/end")["messages"] == 1
    order("clock/step", seconds=1800)
    dead_letters = drain_messages(client, "end")
    assert bodies(dead_letters) == [b"first", b"second"]
    deaths = x_death(dead_letters[0])
    assert [death["queue"] for death in deaths] == hours[::-1]


def test_retries_of_a_consumer_over_a_day_take_a_step_each(order: Orders, client: Client) -> None:
    """Rejected 24 times, an hour apart: the application's own way, over two queues."""
    declared(client, "work", dead_letter_exchange="", dead_letter_routing_key="wait")
    declared(client, "wait", dead_letter_exchange="", dead_letter_routing_key="work", message_ttl=3_600_000)
    deposit(client, b"task", key="work")
    client.send(consume("work"))
    client.expect(BasicConsumeOk)
    for hour in range(24):
        (message,) = deliveries(client, 1)
        client.send(nack(message.method.delivery_tag, requeue=False))
        client.ask(ConfirmSelect(False))  # answered behind it
        order("clock/step", seconds=3600)
        assert hour == 0 or x_death(message)[0]["count"] == hour
    deliveries(client, 1)


def test_delayed_messages_are_published_in_the_order_of_their_times(order: Orders, client: Client) -> None:
    client.ask(exchange_declare("later", "x-delayed-message", arguments={"x-delayed-type": "fanout"}, durable=True))
    declared(client, "all")
    client.ask(queue_bind("all", "later", ""))
    for delay in (3_000_000, 1_000_000, 2_000_000):
        properties = BasicProperties(headers=from_python({"x-delay": delay}))
        deposit(client, b"%d" % delay, exchange="later", key="", properties=properties)
    order("clock/step", seconds=2_500)
    assert bodies(drain_messages(client, "all")) == [b"1000000", b"2000000"]
    order("clock/step", seconds=DAY)
    assert bodies(drain_messages(client, "all")) == [b"3000000"]


@pytest.mark.parametrize("to", ["2001-01-01T00:00:00Z", None])
def test_a_consumer_that_does_not_acknowledge_is_timed_out(order: Orders, client: Client, to: str | None) -> None:
    """Within a minute after its time, as in RabbitMQ. Its timer goes on when the clock was set back."""
    if to is not None:
        order("clock/stop")
        order("clock/set", to=to)
    declared(client, "slow", consumer_timeout=600_000)
    deposit(client, b"1", key="slow")
    order("clock/stop")
    fetch(client, "slow")
    order("clock/step", seconds=599)
    assert client.ask(ConfirmSelect(False))
    order("clock/step", seconds=61)
    closed = client.receive()
    assert isinstance(closed, ChannelClose)
    assert "timed out" in closed.reply_text


@pytest.mark.parametrize(("heartbeats", "stays"), [(False, True), (True, False)])
def test_a_step_counts_as_silence_of_clients_where_that_is_wanted(
    order: Orders, connect: Connect, told: Callable[[str], bool], *, heartbeats: bool, stays: bool
) -> None:
    client = connect(heartbeat=30)
    declared(client, "held")
    deposit(client, b"1", key="held")
    fetch(client, "held")
    order("clock/step", seconds=600, heartbeats=heartbeats)
    assert told("missed heartbeats from client, timeout: 30s") != stays
    assert order.api("queues/%2F/held")["messages_ready"] == (0 if stays else 1)
    if stays:
        client.ask(ConfirmSelect(False))
    else:
        client.expect_gone()


def test_clients_stay_while_time_stands_still(order: Orders, connect: Connect) -> None:
    """The broker goes on with its heartbeats: a client without any for two intervals would leave."""
    client = connect(heartbeat=1)
    order("clock/stop")
    client.await_heartbeats(5)
    client.ask(ConfirmSelect(False))


def test_streams_let_go_of_what_is_too_old(order: Orders, client: Client) -> None:
    declared(client, "log", queue_type="stream", max_age="1h", stream_max_segment_size_bytes=1000)
    deposit(client, *[b"x" * 600] * 4, key="log")
    order("clock/step", seconds=2 * 3600)
    deposit(client, b"new", key="log")
    assert order.api("queues/%2F/log")["messages"] < 4


@pytest.mark.parametrize(
    ("path", "arguments", "reason"),
    [
        ("clock/step", {}, "argument seconds is missing"),
        ("clock/step", {"seconds": -1}, "argument seconds: expected a number from 0 to"),
        ("clock/step", {"hours": 1}, "clock/step takes no argument hours; known: seconds, heartbeats"),
        ("clock/set", {"to": "tomorrow"}, "argument to: expected a time such as 2027-01-31T12:00:00Z"),
        ("clock/set", {"to": "2200-01-01T00:00:00Z"}, "argument to: is more than 400 days from the broker's time"),
    ],
)
def test_a_time_that_cannot_be_is_refused(order: Orders, path: str, arguments: dict[str, Any], reason: str) -> None:
    assert reason in order(path, status=400, **arguments)
