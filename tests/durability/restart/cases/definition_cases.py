"""Declared things are there after a restart, or are not, as their flags say."""

from __future__ import annotations

from typing import Any

from broker.wire.methods import BasicCancel, QueueDeclareOk
from harness.clients.contents import PERSISTENT, with_headers
from harness.clients.queue_steps import deposit, drain
from harness.clients.shorthand import consume, exchange_declare, queue_bind, queue_declare, queue_unbind
from harness.clients.wire_client import Client
from tests.durability.restart.boots import Boots

KEPT_EXCHANGES: dict[str, tuple[str, dict[str, Any]]] = {
    "x.direct": ("direct", {}),
    "x.fanout": ("fanout", {}),
    "x.topic": ("topic", {}),
    "x.headers": ("headers", {}),
    "x.internal": ("fanout", {"internal": True}),
    "x.auto": ("direct", {"auto_delete": True}),
    "x.ring": ("x-consistent-hash", {"arguments": {"hash-header": "h"}}),
    "x.modulus": ("x-modulus-hash", {}),
    "x.random": ("x-random", {}),
    "x.local": ("x-local-random", {}),
    "x.history": ("x-recent-history", {"arguments": {"x-recent-history-length": 3}}),
    "x.alternate": ("direct", {"arguments": {"alternate-exchange": "x.fanout"}}),
}
KEPT_QUEUES = {
    "q.plain": {},
    "q.ttl": {"x-message-ttl": 3_600_000, "x-max-length": 10, "x-overflow": "reject-publish"},
    "q.dead": {"x-dead-letter-exchange": "x.fanout", "x-dead-letter-routing-key": "dead"},
    "q.priority": {"x-max-priority": 5},
}


def declare_all(client: Client) -> None:
    for exchange, (kind, options) in KEPT_EXCHANGES.items():
        client.ask(exchange_declare(exchange, kind, durable=True, **options))
    for queue, arguments in KEPT_QUEUES.items():
        assert client.ask(queue_declare(queue, durable=True, arguments=arguments)) == QueueDeclareOk(queue, 0, 0)


def durable_exchanges_and_queues_keep_their_arguments() -> Boots:
    """0-9-1 specification, exchange.declare and queue.declare, durable; a second declare compares the arguments."""
    client = yield
    declare_all(client)
    client = yield
    for exchange, (kind, _) in KEPT_EXCHANGES.items():
        client.ask(exchange_declare(exchange, kind, passive=True))
    for queue in KEPT_QUEUES:
        client.ask(queue_declare(queue, passive=True))
    declare_all(client)
    other = exchange_declare("x.topic", "direct", durable=True)
    assert "inequivalent arg 'type' for exchange 'x.topic'" in client.refusal(other)
    other_ttl = queue_declare("q.ttl", durable=True, arguments={**KEPT_QUEUES["q.ttl"], "x-message-ttl": 1})
    assert "inequivalent arg 'x-message-ttl'" in client.refusal(other_ttl)


def what_is_not_durable_is_gone() -> Boots:
    """0-9-1 specification: transient entities are purged on restart; a durable exclusive queue dies with its client.

    Exclusive queues of the boot before lock nobody out.
    """
    client = yield
    client.ask(exchange_declare("x", durable=False))
    client.ask(queue_declare("q"))
    client.ask(queue_declare("mine", durable=True, exclusive=True))
    client.ask(queue_declare("kept", durable=True))
    client.ask(queue_bind("kept", "x", "k"))
    client.ask(queue_bind("q", "amq.direct", "k"))
    client = yield
    assert "channel 404 NOT_FOUND - no exchange 'x'" in client.refusal(exchange_declare("x", passive=True))
    for queue in ("q", "mine"):
        assert f"channel 404 NOT_FOUND - no queue '{queue}'" in client.refusal(queue_declare(queue, passive=True))
    assert client.ask(queue_declare("mine", durable=True)) == QueueDeclareOk("mine", 0, 0)
    client.ask(exchange_declare("x", durable=True))
    deposit(client, b"lost", exchange="x", key="k")
    deposit(client, b"lost", exchange="amq.direct", key="k")
    assert drain(client, "kept") == []


def bindings_come_back_with_their_arguments() -> Boots:
    """Values of several types, two bindings that differ by arguments alone.

    A table has no order: declared again nothing is doubled, and an unbind finds it. As with RabbitMQ 3.10.8.
    """
    client = yield
    client.ask(exchange_declare("x", "headers", durable=True))
    for queue, match in (("any", "any"), ("all", "all")):
        client.ask(queue_declare(queue, durable=True))
        client.ask(queue_bind(queue, "x", arguments={"x-match": match, "n": 7, "s": "text", "b": True}))
    client.ask(queue_bind("all", "x", arguments={"x-match": "all", "only": 1.5}))
    client = yield
    sent = {b"every": {"n": 7, "s": "text", "b": True}, b"one": {"n": 7, "s": "other"}, b"float": {"only": 1.5}}
    for body, headers in sent.items():
        deposit(client, body, exchange="x", key="", properties=with_headers(headers))
    assert drain(client, "any") == [b"every", b"one"]
    assert drain(client, "all") == [b"every", b"float"]
    turned = {"b": True, "s": "text", "n": 7, "x-match": "all"}
    client.ask(queue_bind("all", "x", arguments=turned))
    client.ask(queue_unbind("all", "x", arguments=turned))
    deposit(client, b"every", exchange="x", key="", properties=with_headers(sent[b"every"]))
    assert drain(client, "all") == []


def auto_delete_waits_for_the_first_use() -> Boots:
    """RabbitMQ: a durable auto-delete queue without consumers survives, and goes with its last one.

    An exchange that came back still knows that it is to delete itself with its last binding.
    """
    client = yield
    client.ask(queue_declare("q", durable=True, auto_delete=True))
    client.ask(exchange_declare("x", durable=True, auto_delete=True))
    client.ask(queue_bind("q", "x", "k"))
    deposit(client, b"1", key="q", properties=PERSISTENT)
    client = yield
    client.ask(exchange_declare("x", passive=True))
    client.ask(queue_unbind("q", "x", "k"))
    assert "no exchange 'x'" in client.refusal(exchange_declare("x", passive=True))
    assert client.ask(queue_declare("q", passive=True)) == QueueDeclareOk("q", 1, 0)
    client.ask(consume("q", "c", no_ack=True))
    assert client.receive().body == b"1"  # type: ignore[union-attr]
    client.ask(BasicCancel("c", False))
    assert "no queue 'q'" in client.refusal(queue_declare("q", passive=True))
    # Nobody is told of this deletion, so nobody waits for its commit; definitions are committed in order.
    client.ask(queue_declare("later", durable=True))
    client = yield
    assert "no queue 'q'" in client.refusal(queue_declare("q", passive=True))


# Exchanges of RabbitMQ's plugin types

KEYS = [f"key{number}" for number in range(30)]
RING = {"c": "3", "a": "1", "b": "2"}


def places(client: Client, exchange: str) -> str:
    """The queue each key goes to, `-` for none."""
    for key in KEYS:
        deposit(client, key.encode(), exchange=exchange, key=key)
    found = {body.decode(): queue for queue in RING for body in drain(client, queue)}
    return "".join(found.get(key, "-") for key in KEYS)


def each_key_goes_where_it_went() -> Boots:
    """The places of both are RabbitMQ 3.10.8's; its ring is in another order after a restart, ours is not."""
    client = yield
    for exchange, kind in (("ring", "x-consistent-hash"), ("modulus", "x-modulus-hash")):
        client.ask(exchange_declare(exchange, kind, durable=True))
        for queue, key in RING.items():
            client.ask(queue_declare(queue, durable=True))
            client.ask(queue_bind(queue, exchange, key))
    before = places(client, "ring"), places(client, "modulus")
    assert before == ("cabaaacbcbbccaabbbacccaaccccac", "cbbbcbbccccbccaccbbacacbbcbcba")
    client = yield
    assert (places(client, "ring"), places(client, "modulus")) == before


def a_recent_history_is_forgotten_and_what_it_gave_is_not() -> Boots:
    """RabbitMQ 3.10.8, stopped and started: an exchange remembers nothing of its former life."""
    client = yield
    client.ask(exchange_declare("history", "x-recent-history", durable=True))
    deposit(client, b"1", b"2", exchange="history", key="k", properties=PERSISTENT)
    for queue in ("early", "late"):
        client.ask(queue_declare(queue, durable=True))
    client.ask(queue_bind("early", "history"))
    deposit(client, b"3", exchange="history", key="k", properties=PERSISTENT)  # confirmed, and so is what came before
    client = yield
    client.ask(queue_bind("late", "history"))
    assert drain(client, "late") == []
    assert drain(client, "early") == [b"1", b"2", b"3"]
    deposit(client, b"4", exchange="history", key="k", properties=PERSISTENT)
    client.ask(queue_bind("late", "history", "again"))
    assert drain(client, "late") == [b"4", b"4"]
