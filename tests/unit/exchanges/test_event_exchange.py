"""The event exchange. Keys and headers are those of RabbitMQ 3.10.8 with rabbitmq_event_exchange, on the wire."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker, ProbableAuthenticationError

from broker.entities.exchanges.event_exchange import NAME, PORTION, WAITING_MAX, EventExchange, EventSettings
from broker.entities.scheduling.alarms import DISK
from broker.wire.field_tables import to_python
from harness.brokers.broker_core import Core
from harness.brokers.http_broker import ask, web_address
from harness.clients.amqp_peer import Message
from harness.clients.queue_steps import drain_messages
from harness.clients.shorthand import queue_bind, queue_declare
from harness.clients.wire_client import Client
from tests.unit.conftest import Configured

BY_GUEST, BY_ITSELF = {"user_who_performed_action": "guest"}, {"user_who_performed_action": "rmq-internal"}
ENDS = {"source_name": "x", "source_kind": "exchange", "destination_name": "q", "destination_kind": "queue"}
BINDING = {**ENDS, "routing_key": "k", "vhost": "/", "arguments": ['{<<"a">>,signedint,1}']}
X, Q, FLAGS = {"name": "x", "vhost": "/"}, {"name": "q", "vhost": "/"}, {"durable": True, "auto_delete": False}
CONSUMER = {"consumer_tag": "t", "queue": "q", "vhost": "/", **BY_GUEST}
OF_CLIENT = (
    ("user.authentication.success", {"name": "guest", "auth_mechanism": "PLAIN", "protocol": "{0,9,1}", "ssl": False}),
    ("connection.created", {"user": "guest", "user_provided_name": "c", "peer_host": "{127,0,0,1}", "type": "network"}),
    ("channel.created", {"number": 1, "user": "guest", "vhost": "/"}),
    ("exchange.created", {**X, **FLAGS, "internal": False, "type": "topic", "policy": "", "arguments": []}),
    ("queue.created", {**Q, **FLAGS, "exclusive": False, "arguments": ['{<<"x-max-length">>,signedint,5}']}),
    ("binding.created", {**BINDING, **BY_GUEST}),
    ("consumer.created", {**CONSUMER, "exclusive": False, "ack_required": True, "prefetch_count": 7, "arguments": []}),
    ("consumer.deleted", CONSUMER),
    ("binding.deleted", {**BINDING, **BY_ITSELF}),
    ("queue.deleted", {**Q, **BY_GUEST}),
    ("exchange.deleted", {**X, **BY_GUEST}),
    ("queue.created", {"name": "s", "vhost": "/", "type": "rabbit_stream_queue", **FLAGS, **BY_GUEST}),
    ("exchange.deleted", {"name": "gone with its binding", "vhost": "/", **BY_GUEST}),
    ("consumer.deleted", {**CONSUMER, "queue": "s", **BY_ITSELF}),
    ("channel.closed", BY_GUEST),
    ("connection.closed", {"user_provided_name": "c"}),
    ("user.authentication.failure", {"name": "guest", "error": "user 'guest' - invalid credentials"}),
)
U, V, P, GRANT = {"name": "u"}, {"name": "v"}, {"name": "p", "vhost": "v"}, {"user": "u", "vhost": "v"}
GRANTED = {**GRANT, "configure": "a", "write": "b", "read": "c"}
POLICY = {"pattern": "^x", "definition": {"max-length": 5}, "priority": 3}
LIMITS = {"component": "vhost-limits", "name": "limits", "vhost": "v"}
OPTIONAL = {
    "tags": [],
    "description": "",
    "default_queue_type": "",
    "apply_to": "queues",
    "exchange": "t",
    "limits": [],
}
OF_COMMANDS: tuple[tuple[str, dict[str, Any], str, dict[str, Any]], ...] = (
    ("add_user", {**U, "password": "secret"}, "user.created", {**U, "user_who_performed_action": "rmq-cli"}),
    ("set_user_tags", {**U, "tags": ["a"]}, "user.tags.set", {**U, "tags": ["a"]}),
    ("change_password", {**U, "password": "other secret"}, "user.password.changed", U),
    ("clear_password", U, "user.password.cleared", U),
    ("set_user_limits", {**U, "limits": {"max-channels": 5}}, "user.limits.set", {"username": "u", "max-channels": 5}),
    ("clear_user_limits", U, "user.limits.cleared", {"username": "u"}),
    ("add_vhost", {**V, "tags": ["b"]}, "exchange.created", {"name": "amq.direct", "vhost": "v"}),
    ("", {}, "vhost.created", {**V, "tags": ["b"], "tracing": False, "metadata": "#{description => <<>>,tags => [b]}"}),
    ("update_vhost", {**V, "tags": ["c"]}, "vhost.tags.set", {**V, "tags": ["c"]}),
    ("set_permissions", GRANTED, "permission.created", GRANTED),
    ("set_topic_permissions", {**GRANTED, "exchange": "t"}, "topic.permission.created", {**GRANT, "exchange": "t"}),
    ("clear_topic_permissions", {**GRANT, "exchange": "t"}, "topic.permission.deleted", GRANT),
    ("set_policy", {**P, **POLICY}, "policy.set", {**P, **POLICY, "apply-to": "queues"}),
    ("clear_policy", P, "policy.cleared", P),
    ("set_operator_policy", {**P, **POLICY}, "parameter.set", {**P, "component": "operator_policy"}),
    ("", {}, "policy.set", {**P, **POLICY}),
    ("clear_operator_policy", P, "operator.policy.cleared", P),
    ("set_vhost_limits", {**V, "limits": {"max-queues": 6}}, "parameter.set", {**LIMITS, "value": {"max-queues": 6}}),
    ("", {}, "vhost.limits.set", {"max-queues": 6}),
    ("delete_vhost", V, "permission.deleted", GRANT),
    ("", {}, "vhost.deleted", V),
    ("", {}, "parameter.cleared", LIMITS),
    ("", {}, "vhost.down", {**V, **BY_ITSELF}),
    ("", {}, "exchange.deleted", {"name": "amq.direct", "vhost": "v"}),
    ("delete_user", U, "user.deleted", U),
)
BY_LIMITS: dict[str, Any] = {**LIMITS, "vhost": "w", **BY_GUEST}
METADATA = '#{default_queue_type => <<"quorum">>,description => <<"d">>,tags => []}'
W, BOTH = {"name": "w", **BY_GUEST}, {"max-queues": 6, "max-connections": 7}
OF_HTTP: tuple[tuple[str, object, str, dict[str, Any]], ...] = (
    ("PUT users/h", {"password": "secret", "tags": "a"}, "user.created", {"name": "h", **BY_GUEST}),
    ("", None, "user.tags.set", {"name": "h", "tags": ["a"], **BY_GUEST}),
    ("PUT vhosts/w", {}, "exchange.created", {"name": "amq.topic", "vhost": "w", **BY_GUEST}),
    ("", None, "vhost.created", W),
    ("", None, "permission.created", {"user": "guest", "vhost": "w", "configure": ".*", **BY_GUEST}),
    (
        "PUT vhosts/w",
        {"description": "d", "default_queue_type": "quorum"},
        "vhost.updated",
        {**W, "metadata": METADATA},
    ),
    ("PUT vhost-limits/w/max-queues", {"value": 6}, "vhost.limits.set", {"max-queues": 6, **BY_GUEST}),
    ("PUT vhost-limits/w/max-connections", {"value": 7}, "parameter.set", {**BY_LIMITS, "value": BOTH}),
    ("", None, "vhost.limits.set", BOTH),
    ("DELETE vhost-limits/w/max-queues", None, "parameter.set", {**BY_LIMITS, "value": {"max-connections": 7}}),
    ("DELETE parameters/vhost-limits/w/limits", None, "parameter.cleared", BY_LIMITS),
    ("PUT policies/w/p", {"pattern": "^x", "definition": {"max-length": 5}}, "policy.set", {"name": "p", **BY_GUEST}),
    ("PUT global-parameters/g", {"value": {"a": 1}}, "parameter.set", {"component": "global", "name": "g", **BY_GUEST}),
    (
        "PUT queues/w/q",
        {"durable": True},
        "queue.created",
        {"name": "q", "vhost": "w", "type": "rabbit_quorum_queue", **BY_GUEST},
    ),
    ("POST definitions/w", {"queues": [{"name": "i"}]}, "queue.created", {"name": "i", "vhost": "w", **BY_GUEST}),
    ("DELETE queues/w/i", None, "queue.deleted", {"name": "i", "vhost": "w", **BY_GUEST}),
    ("DELETE vhosts/w", None, "vhost.deleted", W),
    ("", None, "queue.deleted", {"name": "q", "vhost": "w", **BY_GUEST}),
    ("POST users/bulk-delete", {"users": ["h"]}, "user.deleted", {"name": "h", **BY_GUEST}),
)


def happened(key: str, headers: dict[str, Any], published: Iterator[Message]) -> bool:
    """True if an event is among those published, behind those that were looked at before."""
    found = ((message.method.routing_key, to_python(message.properties.headers or {})) for message in published)
    return any(name == key and headers.items() <= said.items() and "timestamp_in_ms" in said for name, said in found)


def test_events_have_rabbitmqs_keys_and_headers_and_are_durable(configured: Configured) -> None:
    broker = configured('[event_exchange]\nenabled = true\n[management]\nlisten = ["127.0.0.1:0"]\n')
    client = Client.connect(broker.address)
    client.ask(queue_declare("events", durable=True))
    client.ask(queue_bind("events", NAME, "#"))
    where = pika.ConnectionParameters(*broker.address, client_properties={"connection_name": "c"})
    with pika.BlockingConnection(where) as connection:
        channel = connection.channel()
        channel.exchange_declare("x", "topic", durable=True)
        channel.queue_declare("q", durable=True, arguments={"x-max-length": 5})
        channel.queue_bind("q", "x", "k", {"a": 1})
        channel.basic_qos(prefetch_count=7)
        channel.basic_consume("q", print, consumer_tag="t")
        channel.basic_cancel("t")
        channel.queue_delete("q")
        channel.exchange_delete("x")
        channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
        channel.exchange_declare("gone with its binding", auto_delete=True)
        channel.queue_bind("s", "gone with its binding", "k")
        channel.queue_unbind("s", "gone with its binding", "k")
        channel.basic_consume("s", print, consumer_tag="t")
        with pytest.raises(ChannelClosedByBroker):
            channel.queue_declare("missing", passive=True)
    where.credentials = pika.PlainCredentials("guest", "a secret")
    with pytest.raises(ProbableAuthenticationError):
        pika.BlockingConnection(where)
    for command, arguments, _, _ in OF_COMMANDS:
        if command:
            broker.tell(command, **{**OPTIONAL, **arguments})
    web = web_address(broker)
    for request, body, _, _ in OF_HTTP:
        if request:
            method, _, path = request.partition(" ")
            said = json.dumps(body).encode()
            answer = ask(web, f"/api/{path}", method=method, body=said, content_type="application/json")
            assert answer.status < 300, request
    client.close()
    broker.restart()
    client = Client.connect(broker.address)
    messages = drain_messages(client, "events")
    client.close()
    published = iter(messages)
    for key, headers in (*OF_CLIENT, *(row[2:] for row in (*OF_COMMANDS, *OF_HTTP))):
        assert happened(key, headers, published), (key, headers)
    keys = [message.method.routing_key for message in messages]
    by_commands_and_http = keys[keys.index("user.created") : len(keys) - keys[::-1].index("user.deleted")]
    assert not any(key.startswith(("connection.", "channel.")) for key in by_commands_and_http)
    assert not any(b"secret" in message.header or message.body for message in messages)


def test_events_wait_for_the_end_of_an_alarm_and_not_without_bound(
    core: Core, caplog: pytest.LogCaptureFixture
) -> None:
    exchange, queue, routing, broker = core.exchange(NAME, "topic"), core.queue(), core.vhost.routing, core.broker
    parts = core.clock.now, broker.timers, broker.batches, broker.alarms
    events = EventExchange(EventSettings("/", "node"), 1, *parts, lambda: routing)
    events.publish("queue.deleted", {})  # no queue is bound
    core.bind(exchange, queue, "#")
    broker.alarms.set(DISK, short=True)
    for _ in range(WAITING_MAX + 5):
        events.publish("queue.deleted", {})
    core.advance(1000)
    assert queue.ready == 1, "alarm.set alone"
    broker.alarms.set(DISK, short=False)
    for _ in range(WAITING_MAX // PORTION + 5):
        core.advance(20)
        core.commit()
    assert queue.ready == WAITING_MAX + 2
    assert caplog.messages == [f"dropped 5 events of amq.rabbitmq.event: more than {WAITING_MAX} were waiting"]
