"""Actions over AMQP are seen by HTTP, and actions by HTTP over AMQP."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator

import pytest

from broker.management.routes.message_routes import TAKEN_BYTES_MAX
from broker.wire.methods import BasicGetOk
from broker.wire.properties import BasicProperties
from harness.brokers.rabbitmq_reference import REFERENCE
from harness.clients.shorthand import consume, get, prefetch, queue_declare
from harness.clients.wire_client import Address, Client
from harness.waiting import eventually
from tests.conformance.http.conftest import VHOST
from tests.conformance.http.request_table import BASE, Request, Send, differences, sections

LOCKED = "cannot obtain exclusive access to locked queue 'own'..."
SEEN = """
== clients
GET consumers/v%2F1?sort=consumer_tag&columns=consumer_tag,queue,ack_required,exclusive,active,activity_status,prefetch_count,arguments -> 200 [{"consumer_tag":"a","queue":{"name":"single","vhost":"v/1"},"ack_required":true,"exclusive":false,"active":true,"activity_status":"single_active","prefetch_count":7,"arguments":{"x-priority":5}},{"consumer_tag":"b","queue":{"name":"single","vhost":"v/1"},"ack_required":true,"exclusive":false,"active":false,"activity_status":"waiting","prefetch_count":7,"arguments":{"x-consumer-timeout":70000}},{"consumer_tag":"c","queue":{"name":"own","vhost":"v/1"},"ack_required":false,"exclusive":true,"active":true,"activity_status":"up","prefetch_count":7,"arguments":{}}]
GET queues/v%2F1/own -> 200 {"name":"own","exclusive":true,"durable":false,"consumers":1,"exclusive_consumer_tag":"c","owner_pid_details":{"name":"127.0.0.1:...","peer_host":"127.0.0.1","peer_port":PORT},"consumer_details":[{"consumer_tag":"c","channel_details":{"connection_name":"127.0.0.1:...","name":"127.0.0.1:...","node":"...","number":1,"peer_host":"127.0.0.1","peer_port":PORT,"user":"guest"},"...":"..."}],"...":"..."}
GET queues/v%2F1/single?columns=consumers,single_active_consumer_tag,messages -> 200 {"consumers":2,"single_active_consumer_tag":"a","messages":0}
GET queues/v%2F1/filled?columns=messages,messages_ready,messages_unacknowledged,messages_persistent,message_bytes,message_bytes_ready,message_bytes_unacknowledged,message_bytes_persistent,consumers -> 200 {"messages":3,"messages_ready":2,"messages_unacknowledged":1,"messages_persistent":2,"message_bytes":25,"message_bytes_ready":15,"message_bytes_unacknowledged":10,"message_bytes_persistent":20,"consumers":0}
GET queues/v%2F1?columns=name&sort=messages&sort_reverse=true&page=1&page_size=1 -> 200 {"items":[{"name":"filled"}],"...":"..."}
GET queues/v%2F1?columns=name&sort=message_stats.publish&sort_reverse=true&page=1&page_size=1 -> 200 {"items":[{"name":"filled"}],"...":"..."}
GET queues/v%2F1?sort=name&columns=name,exclusive,owner_pid_details -> 200 [{"name":"filled","exclusive":false},{"name":"own","exclusive":true},{"name":"single","exclusive":false}]
GET consumers/v%2F1?sort=consumer_tag&columns=consumer_tag,consumer_timeout -> 200 [{"consumer_tag":"a"},{"consumer_tag":"b"},{"consumer_tag":"c"}]
    leveret 200 [{"consumer_tag":"a","consumer_timeout":1800000},{"consumer_tag":"b","consumer_timeout":70000},{"consumer_tag":"c","consumer_timeout":1800000}]
PUT queues/v%2F1/own {} -> 400 {"error":"bad_request","reason":"LOCKED"}
DELETE queues/v%2F1/own -> 400 {"error":"bad_request","reason":"LOCKED"}
DELETE queues/v%2F1/own/contents -> 400 {"error":"bad_request","reason":"LOCKED"}
POST queues/v%2F1/own/get {"count":1,"ackmode":"ack_requeue_true","encoding":"auto"} -> 400 {"error":"bad_request","reason":"405 RESOURCE_LOCKED - LOCKED"}
POST bindings/v%2F1/e/amq.direct/q/own {} -> 400 {"error":"bad_request","reason":"LOCKED"}
DELETE queues/v%2F1/single?if-unused=true -> 400 {"error":"bad_request","reason":"queue 'single' in vhost 'v/1' in use"}
DELETE queues/v%2F1/filled?if-empty=true -> 400 {"error":"bad_request","reason":"queue 'filled' in vhost 'v/1' not empty"}
DELETE queues/v%2F1/filled/contents -> 204
""".replace("LOCKED - LOCKED", f"LOCKED - {LOCKED}").replace('"LOCKED', f'"{LOCKED}')

ALL = """
== all
POST queues/v%2F1/large/get {"count":-1,"ackmode":"ack_requeue_true","encoding":"auto"} -> 200
"""


def table(requests: str) -> list[Request]:
    (found,) = sections(requests).values()
    return found


@pytest.fixture
def client(send: Send, broker: Address) -> Iterator[Client]:
    """A client in the virtual host that the requests are about."""
    client = Client.connect(broker, vhost=VHOST)
    yield client
    client.close()


def test_clients_are_seen(client: Client, send: Send) -> None:
    client.ask(queue_declare("own", exclusive=True))
    client.ask(queue_declare("single", arguments={"x-single-active-consumer": True}))
    client.ask(queue_declare("filled", durable=True))
    for mode, body in ((2, b"x" * 10), (1, b"y" * 5), (2, b"x" * 10)):
        client.publish(body, key="filled", properties=BasicProperties(delivery_mode=mode))
    client.send(get("filled"))
    client.expect_message(BasicGetOk)
    client.ask(prefetch(7))
    client.ask(consume("single", "a", arguments={"x-priority": 5}))
    client.ask(consume("single", "b", arguments={"x-consumer-timeout": 70_000}))
    client.ask(consume("own", "c", exclusive=True, no_ack=True))
    requests = table(SEEN.replace("PORT", str(client.socket.getsockname()[1])))

    def all_seen() -> bool:  # RabbitMQ shows what clients did some seconds later
        return not differences(requests[:8], send, BASE, reference=bool(REFERENCE))

    if REFERENCE:
        eventually(all_seen, "clients to be seen")
    wrong = differences(requests, send, BASE, reference=bool(REFERENCE))
    assert not wrong, "\n".join(wrong)
    assert client.ask(queue_declare("filled", durable=True)).message_count == 0


@pytest.mark.skipif(bool(REFERENCE), reason="RabbitMQ's answers have no bound")
def test_one_answer_takes_no_more_than_it_may_hold(client: Client, send: Send) -> None:
    body = b"\xff" * (4 << 20)
    sent = TAKEN_BYTES_MAX // len(body) + 2
    client.ask(queue_declare("large"))
    for _ in range(sent):
        client.publish(body, key="large")
    client.ask(queue_declare("large"))
    (asked,) = table(ALL)
    taken = json.loads(send(asked).body)
    assert 0 < len(taken) < sent
    assert all(each["payload"] == b64encode(body).decode() for each in taken)
    assert taken[-1]["message_count"] == sent - len(taken)
    assert client.ask(queue_declare("large")).message_count == sent
