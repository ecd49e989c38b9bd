"""What was declared is there again after an end of either kind, or is not, as its flags say."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.wire.methods import BasicCancel, QueueDeclareOk, QueueDelete
from harness.clients.contents import PERSISTENT, with_headers
from harness.clients.queue_steps import deposit, drain
from harness.clients.shorthand import (
    consume,
    exchange_bind,
    exchange_declare,
    exchange_delete,
    exchange_unbind,
    queue_bind,
    queue_declare,
    queue_delete,
    queue_unbind,
)
from harness.clients.wire_client import Client

Dial = Callable[[], Client]

pytestmark = pytest.mark.slow

KEPT_EXCHANGES = {
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


def test_durable_exchanges_and_queues_come_back_with_their_arguments(dial: Dial, reborn: Dial) -> None:
    """0-9-1 specification, exchange.declare and queue.declare, durable; a second declare compares the arguments."""
    client = dial()

    def declare_all() -> None:
        for exchange, (kind, options) in KEPT_EXCHANGES.items():
            client.ask(exchange_declare(exchange, kind, durable=True, **options))  # type: ignore[arg-type]
        for queue, arguments in KEPT_QUEUES.items():
            assert client.ask(queue_declare(queue, durable=True, arguments=arguments)) == QueueDeclareOk(queue, 0, 0)

    declare_all()
    client = reborn()
    for exchange, (kind, _) in KEPT_EXCHANGES.items():
        client.ask(exchange_declare(exchange, kind, passive=True))
    for queue in KEPT_QUEUES:
        client.ask(queue_declare(queue, passive=True))
    declare_all()
    other = exchange_declare("x.topic", "direct", durable=True)
    assert "inequivalent arg 'type' for exchange 'x.topic'" in client.refusal(other)
    other_ttl = {**KEPT_QUEUES["q.ttl"], "x-message-ttl": 1}
    assert "inequivalent arg 'x-message-ttl'" in client.refusal(
        queue_declare("q.ttl", durable=True, arguments=other_ttl)
    )


def test_what_is_not_durable_is_gone(dial: Dial, reborn: Dial) -> None:
    """0-9-1 specification: transient entities are purged on restart; a durable exclusive queue dies with its client."""
    client = dial()
    client.ask(exchange_declare("x", durable=False))
    client.ask(queue_declare("q"))
    client.ask(queue_declare("mine", durable=True, exclusive=True))
    client.ask(queue_declare("kept", durable=True))
    client.ask(queue_bind("kept", "x", "k"))
    client.ask(queue_bind("q", "amq.direct", "k"))
    client = reborn()
    assert client.refusal(exchange_declare("x", passive=True)) == "channel 404 NOT_FOUND - no exchange 'x' in vhost '/'"
    for queue in ("q", "mine"):
        text = f"channel 404 NOT_FOUND - no queue '{queue}' in vhost '/'"
        assert client.refusal(queue_declare(queue, passive=True)) == text
    client.ask(exchange_declare("x", durable=True))
    deposit(client, b"lost", exchange="x", key="k")
    deposit(client, b"lost", exchange="amq.direct", key="k")
    assert drain(client, "kept") == []


def test_bindings_of_a_queue_come_back(dial: Dial, reborn: Dial) -> None:
    """A binding of a durable queue to a durable exchange is durable (RabbitMQ's semantics); an undone one is gone."""
    cases = [
        ("direct", "k", "k", "j"),
        ("direct", "", "", "x"),
        ("topic", "a.*.#", "a.b.c.d", "b.b"),
        ("topic", "#.z", "z", "z.y"),
    ]
    client = dial()
    for number, (kind, bound, _, _) in enumerate(cases):
        client.ask(exchange_declare(f"x{number}", kind, durable=True))
        client.ask(queue_declare(f"q{number}", durable=True))
        client.ask(queue_bind(f"q{number}", f"x{number}", bound))
        client.ask(queue_bind(f"q{number}", f"x{number}", "undone"))
        client.ask(queue_unbind(f"q{number}", f"x{number}", "undone"))
    client = reborn()
    for number, (_, _, matching, other) in enumerate(cases):
        for key, body in ((matching, b"yes"), (other, b"no"), ("undone", b"no")):
            deposit(client, body, exchange=f"x{number}", key=key)
        assert drain(client, f"q{number}") == [b"yes"], cases[number]


def test_header_bindings_come_back_with_typed_arguments(dial: Dial, reborn: Dial) -> None:
    """x-match any and all, values of several types, two bindings that differ by arguments alone."""
    client = dial()
    client.ask(exchange_declare("x", "headers", durable=True))
    for queue, match in (("any", "any"), ("all", "all")):
        client.ask(queue_declare(queue, durable=True))
        client.ask(queue_bind(queue, "x", arguments={"x-match": match, "n": 7, "s": "text", "b": True}))
    client.ask(queue_bind("all", "x", arguments={"x-match": "all", "only": 1.5}))
    client = reborn()
    publish = {"every": {"n": 7, "s": "text", "b": True}, "one": {"n": 7, "s": "other"}, "float": {"only": 1.5}}
    for body, headers in publish.items():
        deposit(client, body.encode(), exchange="x", key="", properties=with_headers(headers))
    assert drain(client, "any") == [b"every", b"one"]
    assert drain(client, "all") == [b"every", b"float"]


def test_a_binding_that_came_back_is_known_by_its_arguments_in_any_order(dial: Dial, reborn: Dial) -> None:
    """A table has no order: declared again nothing is doubled, and an unbind finds it. As with RabbitMQ 3.10.8."""
    client = dial()
    client.ask(exchange_declare("x", "headers", durable=True))
    client.ask(queue_declare("q", durable=True))
    client.ask(queue_bind("q", "x", arguments={"b": 1, "a": 2}))

    client = reborn()
    client.ask(queue_bind("q", "x", arguments={"a": 2, "b": 1}))
    client.ask(queue_unbind("q", "x", arguments={"a": 2, "b": 1}))
    deposit(client, b"nobody's", exchange="x", key="", properties=with_headers({"a": 2, "b": 1}))
    assert drain(client, "q") == []


def test_bindings_between_exchanges_come_back(dial: Dial, reborn: Dial) -> None:
    """RabbitMQ's exchange to exchange bindings; one that was undone stays undone."""
    client = dial()
    client.ask(exchange_declare("source", "topic", durable=True))
    client.ask(exchange_declare("middle", "fanout", durable=True))
    client.ask(queue_declare("q", durable=True))
    client.ask(exchange_bind("middle", "source", "a.#"))
    client.ask(exchange_bind("middle", "source", "b.#"))
    client.ask(exchange_unbind("middle", "source", "b.#"))
    client.ask(queue_bind("q", "middle"))
    client = reborn()
    deposit(client, b"a", exchange="source", key="a.x")
    deposit(client, b"b", exchange="source", key="b.x")
    assert drain(client, "q") == [b"a"]


def test_deleted_things_stay_deleted(dial: Dial, reborn: Dial) -> None:
    """A queue that was deleted with messages comes back neither by itself nor with its messages when declared again."""
    client = dial()
    client.ask(exchange_declare("x", durable=True))
    for queue in ("deleted", "renewed"):
        client.ask(queue_declare(queue, durable=True))
        client.ask(queue_bind(queue, "x", "k"))
    deposit(client, b"old", exchange="x", key="k", properties=PERSISTENT)
    for queue in ("deleted", "renewed"):
        assert client.ask(queue_delete(queue)).message_count == 1
    client.ask(queue_declare("renewed", durable=True))
    client.ask(exchange_declare("gone", durable=True))
    client.ask(exchange_delete("gone"))
    client = reborn()
    assert "no queue 'deleted'" in client.refusal(queue_declare("deleted", passive=True))
    assert "no exchange 'gone'" in client.refusal(exchange_declare("gone", passive=True))
    assert client.ask(queue_declare("deleted", durable=True)) == QueueDeclareOk("deleted", 0, 0)
    deposit(client, b"unbound", exchange="x", key="k", properties=PERSISTENT)
    assert drain(client, "deleted") == drain(client, "renewed") == []


def test_an_auto_delete_queue_waits_for_its_first_consumer(dial: Dial, reborn: Dial) -> None:
    """RabbitMQ: a durable auto-delete queue without consumers survives, and goes with its last one."""
    client = dial()
    client.ask(queue_declare("q", durable=True, auto_delete=True))
    deposit(client, b"1", key="q", properties=PERSISTENT)
    client = reborn()
    assert client.ask(queue_declare("q", passive=True)) == QueueDeclareOk("q", 1, 0)
    client.ask(consume("q", "c", no_ack=True))
    assert client.receive().body == b"1"  # type: ignore[union-attr]
    client.ask(BasicCancel("c", False))
    assert "no queue 'q'" in client.refusal(queue_declare("q", passive=True))
    # Nobody is told of this deletion, so nobody waits for its commit; definitions are committed in order.
    client.ask(queue_declare("later", durable=True))
    client = reborn()
    assert "no queue 'q'" in client.refusal(queue_declare("q", passive=True))


def test_an_auto_delete_exchange_goes_with_its_last_binding(dial: Dial, reborn: Dial) -> None:
    """RabbitMQ: an exchange that came back still knows that it is to delete itself."""
    client = dial()
    client.ask(exchange_declare("x", durable=True, auto_delete=True))
    client.ask(queue_declare("q", durable=True))
    client.ask(queue_bind("q", "x", "k"))
    client = reborn()
    client.ask(exchange_declare("x", passive=True))
    client.ask(queue_unbind("q", "x", "k"))
    assert "no exchange 'x'" in client.refusal(exchange_declare("x", passive=True))


def test_an_exclusive_name_is_free_again(dial: Dial, reborn: Dial) -> None:
    """What belonged to a connection of the broker's former life locks nobody out."""
    client = dial()
    client.ask(queue_declare("mine", exclusive=True))
    client = reborn()
    assert client.ask(queue_declare("mine", durable=True)) == QueueDeclareOk("mine", 0, 0)
    client.ask(QueueDelete("mine", False, False, False))


def test_many_queues_and_bindings(dial: Dial, reborn: Dial) -> None:
    """Three hundred queues, each bound twice, declared without waiting for each answer."""
    client = dial()
    client.ask(exchange_declare("x", "topic", durable=True))
    for number in range(300):
        client.send(
            queue_declare(f"q{number}", durable=True, no_wait=True),
            queue_bind(f"q{number}", "x", f"{number}.#", no_wait=True),
            queue_bind(f"q{number}", "x", "all", no_wait=True),
        )
    client.ask(queue_declare("q299", passive=True))
    client = reborn()
    deposit(client, b"one", exchange="x", key="17.a")
    deposit(client, b"all", exchange="x", key="all")
    assert drain(client, "q17") == [b"one", b"all"]
    assert {tuple(drain(client, f"q{number}")) for number in range(300) if number != 17} == {(b"all",)}
