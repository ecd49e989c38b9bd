"""Shovels move messages, say how they do, and go when they are done: as RabbitMQ 3.10.8's plugin."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from broker.wire.field_tables import to_python
from broker.wire.methods import BasicDeliver
from broker.wire.properties import BasicProperties
from harness.clients.shorthand import consume, queue_bind, queue_declare
from harness.clients.wire_client import Address, Client
from harness.waiting import eventually
from tests.conformance.http.conftest import VHOST
from tests.conformance.http.request_table import Send, sections

LOCAL = "amqp:///v%2F1"
QUEUES = {"src-uri": LOCAL, "src-queue": "from", "dest-uri": LOCAL, "dest-queue": "to"}
ROUTES = {
    "by queue": ({"dest-queue": "to"}, "", "to"),
    "to an exchange": ({"dest-exchange": "amq.fanout", "dest-exchange-key": "new"}, "amq.fanout", "new"),
    "to another key": ({"dest-exchange-key": "to"}, "", "to"),
}


class Api:
    """The API, in the virtual host of the tests."""

    def __init__(self, send: Send) -> None:
        self._send = send

    def ask(self, line: str, status: int) -> Any:
        """Send a request, written as in the tables; the value of its answer, whose status has to be this one."""
        (requests,) = sections(f"== one\n{line} -> {status}").values()
        reply = self._send(requests[0])
        assert reply.status == status, (line, reply)
        return json.loads(reply.body) if reply.body else None

    def put(self, **value: object) -> None:
        """Set the shovel of a test."""
        named = {key.replace("_", "-"): item for key, item in value.items()}
        self.ask(f"PUT parameters/shovel/v%2F1/moving {json.dumps({'value': named})}", 201)

    def shovel(self, state: str) -> dict[str, Any]:
        """Its row, once it is in this state."""

        def row() -> Any:
            return next((row for row in self.ask("GET shovels/v%2F1", 200) if row["state"] == state), None)

        found: dict[str, Any] = eventually(row, f"a shovel that is {state}")
        return found


@pytest.fixture
def api(send: Send) -> Api:
    return Api(send)


@pytest.fixture
def client(api: Api, broker: Address) -> Iterator[Client]:
    """A client with the queues `from` and `to`."""
    client = Client.connect(broker, vhost=VHOST)
    for queue in ("from", "to"):
        client.ask(queue_declare(queue, durable=True))
    yield client
    client.close()


def received(client: Client, queue: str, count: int) -> list[Any]:
    client.ask(consume(queue, no_ack=True))
    return [client.expect_message(BasicDeliver) for _ in range(count)]


@pytest.mark.parametrize("mode", ["on-confirm", "on-publish", "no-ack"])
@pytest.mark.parametrize(("to", "exchange", "key"), ROUTES.values(), ids=ROUTES)
def test_messages_arrive_in_order(
    api: Api, client: Client, broker: Address, mode: str, to: dict[str, str], exchange: str, key: str
) -> None:
    client.ask(queue_bind("to", "amq.fanout"))
    uri = f"amqp://guest:guest@127.0.0.1:{broker[1]}/v%2F1"
    api.put(**{"src-uri": LOCAL, "src-queue": "from", "dest-uri": uri, "ack-mode": mode, **to})
    shown = api.shovel("running")
    assert shown["dest_uri"] == uri.replace("guest:guest@", "")
    assert shown["src_queue"] == "from"
    for number in range(300):
        client.publish(b"%d" % number, key="from", properties=BasicProperties(message_id=str(number)))
    messages = received(client, "to", 300)
    assert [message.body for message in messages] == [b"%d" % number for number in range(300)]
    assert {(message.method.exchange, message.method.routing_key) for message in messages} == {(exchange, key)}
    api.ask("DELETE shovels/vhost/v%2F1/moving", 204)


def test_headers_tell_the_way(api: Api, client: Client) -> None:
    """x-shovelled has a table for each shovel, the latest first, and properties are those that were asked for."""
    client.ask(queue_bind("to", "amq.fanout"))
    api.put(
        **{"src-uri": LOCAL, "src-exchange": "amq.topic", "src-exchange-key": "a.#", "dest-uri": LOCAL},
        dest_exchange="amq.fanout",
        dest_add_forward_headers=True,
        dest_add_timestamp_header=True,
        dest_publish_properties={"app_id": "s", "delivery_mode": 1},
    )
    api.shovel("running")
    properties = BasicProperties(app_id="p", priority=3, headers={})
    client.publish(b"x", exchange="amq.topic", key="a.b", properties=properties)
    (message,) = received(client, "to", 1)
    assert message.properties._replace(headers=None) == BasicProperties(app_id="s", delivery_mode=1, priority=3)
    headers = to_python(message.properties.headers)
    assert headers.pop("x-shovelled-timestamp") > 1_700_000_000
    (hop,) = headers.pop("x-shovelled")
    assert hop.pop("shovelled-by")
    assert hop == {
        "shovel-type": "dynamic",
        "shovel-name": "moving",
        "shovel-vhost": VHOST,
        "src-uri": LOCAL,
        "dest-uri": LOCAL,
        "src-exchange": "amq.topic",
        "src-exchange-key": "a.#",
        "dest-exchange": "amq.fanout",
    }
    assert headers == {}


@pytest.mark.parametrize("after", [4, "queue-length"])
def test_a_shovel_goes_when_it_has_moved_what_it_was_to_move(api: Api, client: Client, after: object) -> None:
    """Messages that it did not move stay, in their order."""
    for number in range(10):
        client.publish(b"%d" % number, key="from")
    eventually(lambda: client.ask(queue_declare("from", passive=True)).message_count == 10, "ten messages")
    api.put(**QUEUES, src_delete_after=after)
    eventually(lambda: not api.ask("GET parameters/shovel/v%2F1", 200), "the shovel to go")
    moved = 10 if after == "queue-length" else after
    assert isinstance(moved, int)
    bodies = [message.body for message in received(client, "to", moved)]
    bodies += [message.body for message in received(client, "from", 10 - moved)]
    assert bodies == [b"%d" % number for number in range(10)]
    assert api.ask("GET shovels/v%2F1", 200) == []


@pytest.mark.parametrize(
    ("change", "state", "reason"),
    [
        ({"src-uri": "amqp://127.0.0.1:1"}, "starting", None),
        ({"src-uri": "amqp:///v%2F1", "src-queue": "amq.reserved"}, "terminated", '"needed a restart"'),
        ({"dest-queue": "amq.reserved"}, "terminated", '"needed a restart"'),
    ],
)
def test_a_shovel_that_cannot_work_says_so(api: Api, change: dict[str, str], state: str, reason: str | None) -> None:
    api.put(**(QUEUES | change), reconnect_delay=0)
    assert api.shovel(state).get("reason") == reason


def test_a_shovel_whose_queue_is_deleted_begins_anew(api: Api, client: Client) -> None:
    api.put(**QUEUES, reconnect_delay=1)
    api.shovel("running")
    api.ask("DELETE queues/v%2F1/from", 204)

    def consumers() -> int:
        count: int = client.ask(queue_declare("from", durable=True)).consumer_count
        return count

    eventually(consumers, "the shovel to consume again")
    client.publish(b"x", key="from")
    assert received(client, "to", 1)[0].body == b"x"
