"""x-consistent-hash and x-modulus-hash: RabbitMQ's plugins, down to the queue that each value goes to.

The letters that these tests expect are the last letters of the queues where RabbitMQ 3.10.8 put the messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from broker.wire.field_tables import Field, from_python
from broker.wire.methods import BasicReturn, ChannelClose, ConnectionClose
from broker.wire.properties import BasicProperties
from harness.clients.queue_steps import drain
from harness.clients.shorthand import (
    exchange_bind,
    exchange_declare,
    exchange_delete,
    exchange_unbind,
    queue_bind,
    queue_declare,
    queue_unbind,
)
from harness.clients.wire_client import Client

Name = Callable[..., str]
Properties = Callable[[int], BasicProperties | None]


class Spread:
    """An exchange and the queues a, b and c, whose names end in these letters."""

    def __init__(self, client: Client, name: Name) -> None:
        self.client = client
        self.exchange = name("x")
        own = name("")
        self.queues = {letter: f"q{own}.{letter}" for letter in "abc"}
        for queue in self.queues.values():
            client.ask(queue_declare(queue, exclusive=True))

    def declare(self, kind: str, arguments: Mapping[str, Any] | None = None) -> None:
        self.client.ask(exchange_declare(self.exchange, kind, arguments=arguments))

    def bind(self, letter: str, key: str, arguments: Mapping[str, Any] | None = None) -> None:
        self.client.ask(queue_bind(self.queues[letter], self.exchange, key, arguments=arguments))

    def unbind(self, letter: str, key: str) -> None:
        self.client.ask(queue_unbind(self.queues[letter], self.exchange, key))

    def ring(self) -> None:
        """Weights 1, 2 and 3 for a, b and c."""
        for letter, weight in zip("abc", "123", strict=True):
            self.bind(letter, weight)

    def places(self, count: int = 30, properties: Properties = lambda number: None) -> str:
        """Publish key0, key1 and so on; the letters of the queues they went to, `-` for none."""
        for number in range(count):
            self.client.publish(
                b"%d" % number, exchange=self.exchange, key=f"key{number}", properties=properties(number)
            )
        found: dict[int, str] = {}
        for letter, queue in self.queues.items():
            for body in drain(self.client, queue):
                found[int(body)] = found.get(int(body), "") + letter
        return "".join(found.get(number, "-") for number in range(count))


@pytest.fixture
def spread(client: Client, name: Name) -> Iterator[Spread]:
    made = Spread(client, name)
    yield made
    client.ask(exchange_delete(made.exchange))


OF_KEYS = "bcccccbcbccbaccccccabbccbabacb"


# Consistent hash: the ring


def test_each_key_has_its_queue(spread: Spread) -> None:
    """RabbitMQ 3.10.8 on the wire: binding keys are weights, the same key goes to the same queue, each to one."""
    spread.declare("x-consistent-hash")
    spread.ring()
    assert spread.places() == OF_KEYS
    assert spread.places() == OF_KEYS


def test_a_ring_of_one_takes_everything_and_an_empty_one_nothing(spread: Spread) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    spread.declare("x-consistent-hash")
    assert spread.places(3) == "---"
    spread.bind("b", "7")
    assert spread.places(5) == "bbbbb"
    spread.unbind("b", "7")
    spread.client.publish(b"x", exchange=spread.exchange, key="k", mandatory=True)
    assert spread.client.expect_message(BasicReturn).method.reply_text == "NO_ROUTE"


def test_who_is_bound_later_takes_over_a_few_keys(spread: Spread) -> None:
    """RabbitMQ 3.10.8 on the wire: jump consistent hash, the new queue's buckets come last."""
    spread.declare("x-consistent-hash")
    spread.bind("c", "3")
    spread.bind("a", "1")
    before = spread.places()
    spread.bind("b", "2")
    after = spread.places()
    assert (before, after) == ("cacaaacaccaccaacccacccaaccccac", "cabaaacbcbbccaabbbacccaaccccac")


def test_a_queue_is_on_the_ring_once(spread: Spread) -> None:
    """RabbitMQ 3.10.8 on the wire: a second binding adds nothing, and with either of them the queue leaves the ring."""
    spread.declare("x-consistent-hash")
    spread.ring()
    spread.bind("a", "5")
    assert spread.places() == OF_KEYS
    spread.unbind("a", "5")
    without = "bcbccccccbcbbccccccbcccccbcbcc"
    assert spread.places() == without
    spread.bind("a", "1")  # it is bound like that, so nothing happens
    assert spread.places() == without
    spread.unbind("a", "1")
    spread.bind("a", "1")
    assert spread.places() == "bcaccccacaabbcccaccbcccccbcbcc", "at the end of the ring"


def test_an_exchange_may_be_on_the_ring(spread: Spread, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    spread.declare("x-consistent-hash")
    fanout = name("x")
    spread.client.ask(exchange_declare(fanout, "fanout", auto_delete=True))
    spread.client.ask(queue_bind(spread.queues["b"], fanout))
    spread.bind("c", "3")
    spread.bind("a", "1")
    spread.client.ask(exchange_bind(fanout, spread.exchange, "2"))
    assert spread.places() == "cabaaacbcbbccaabbbacccaaccccac"
    refused = "channel 406 PRECONDITION_FAILED - The binding key must be an integer: <<>>"
    assert spread.client.refusal(exchange_bind(fanout, spread.exchange, "")) == refused


def test_copies_follow_the_routing_key(spread: Spread) -> None:
    """RabbitMQ 3.10.8 on the wire: of the keys in CC the exchange takes no notice."""
    spread.declare("x-consistent-hash")
    spread.ring()
    copied = from_python({"CC": ["one", "two"], "BCC": ["three"]})
    assert spread.places(properties=lambda number: BasicProperties(headers=copied)) == OF_KEYS


# Consistent hash: what is hashed


@pytest.mark.parametrize(
    ("header", "places"),
    [
        (lambda n: Field("S", b"v%d" % n), "cbbbccccbcaaaaccbabc"),
        (lambda n: Field("x", b"v%d" % n), "ccababcacccbcbaabcbb"),
        (lambda n: Field("b", n), "abccbccccbbccbbcbbcc"),
        (lambda n: Field("B", n), "ccbaacbacbcbaccbccbb"),
        (lambda n: Field("s", n), "ccbbcbcbacbcbbccccca"),
        (lambda n: Field("u", n), "bbaccabacbbcbaccbccc"),
        (lambda n: Field("I", n * 99), "cbcbcccccccacbbbcacc"),
        (lambda n: Field("i", n), "cbcbcabbabaacabbccac"),
        (lambda n: Field("l", -n * (1 << 35)), "aacbbbbbbcbcaccbbbca"),
        (lambda n: Field("f", n * 1.5), "bcbaccccbacaaccaacbb"),
        (lambda n: Field("d", n * 1.5), "ccbcccaccbbaacbcbcbb"),
        (lambda n: Field("D", (2, n)), "cccaaaccccbcbbcccaab"),
        (lambda n: Field("T", n * 1000), "cbccbcccbabcbccbbcbb"),
        (lambda n: Field("t", n % 2 == 1), "bcbcbcbcbcbcbcbcbcbc"),
        (lambda n: Field("V", None), "aaaaaaaaaaaaaaaaaaaa"),
        (lambda n: Field("A", [Field("I", n), Field("S", b"q")]), "bbacabccccacbbbccbcc"),
        (lambda n: Field("F", {"k": Field("I", n), "j": Field("S", b"q")}), "bbbccccaacaacacacccb"),
    ],
    ids=list("SxbBsuIilfdDTtVAF"),
)
def test_a_header_is_hashed_with_its_type(spread: Spread, header: Callable[[int], Field], places: str) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    spread.declare("x-consistent-hash", {"hash-header": "h"})
    spread.ring()
    assert spread.places(20, lambda number: BasicProperties(headers={"h": header(number)})) == places


@pytest.mark.parametrize(
    ("hashed", "properties", "places"),
    [
        ("message_id", lambda n: BasicProperties(message_id=f"m{n}"), "ccccccbccbccbccabccc"),
        ("correlation_id", lambda n: BasicProperties(correlation_id=f"m{n}"), "ccccccbccbccbccabccc"),
        ("timestamp", lambda n: BasicProperties(timestamp=1000 + n), "cbcabaabbcccccacbbbc"),
        ("message_id", lambda n: BasicProperties(correlation_id=f"m{n}"), "b" * 20),
        ("timestamp", lambda n: None, "b" * 20),
    ],
)
def test_a_property_is_hashed(spread: Spread, hashed: str, properties: Properties, places: str) -> None:
    """RabbitMQ 3.10.8 on the wire; all messages without the property are equal."""
    spread.declare("x-consistent-hash", {"hash-property": hashed})
    spread.ring()
    assert spread.places(20, properties) == places


def test_messages_without_the_header_are_equal(spread: Spread) -> None:
    """RabbitMQ 3.10.8 on the wire: with other headers or none."""
    spread.declare("x-consistent-hash", {"hash-header": "h"})
    spread.ring()
    others = BasicProperties(headers=from_python({"other": 1}))
    assert spread.places(6, lambda number: others if number % 2 else None) == "bbbbbb"


# Consistent hash: what is refused


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"hash-header": "h", "hash-property": "message_id"}, "hash-header and hash-property are mutually exclusive"),
        ({"hash-header": "h", "hash-property": "nonsense"}, "hash-header and hash-property are mutually exclusive"),
        ({"hash-property": "app_id"}, "Unsupported property: app_id"),
        ({"hash-property": ""}, "Unsupported property: "),
        ({"hash-property": 'é"'}, 'Unsupported property: é"'),
    ],
)
def test_impossible_arguments(client: Client, name: Name, arguments: dict[str, Any], text: str) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    refused = client.refusal(exchange_declare(name("x"), "x-consistent-hash", arguments=arguments))
    assert refused == f"channel 406 PRECONDITION_FAILED - {text}"


@pytest.mark.parametrize("argument", ["hash-header", "hash-property"])
def test_an_argument_that_is_no_string(client: Client, name: Name, argument: str) -> None:
    """RabbitMQ 3.10.8 on the wire: it fails, says so, and drops the connection."""
    client.send(exchange_declare(name("x"), "x-consistent-hash", arguments={argument: 5}))
    assert client.expect(ConnectionClose).reply_code == 541


def test_arguments_of_an_exchange_that_is_there_do_not_matter(client: Client, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire: neither compared nor checked."""
    exchange = name("x")
    client.ask(exchange_declare(exchange, "x-consistent-hash", auto_delete=True, arguments={"hash-header": "h"}))
    for arguments in ({}, {"hash-header": "other"}, {"hash-property": "nonsense"}):
        client.ask(exchange_declare(exchange, "x-consistent-hash", auto_delete=True, arguments=arguments))
    client.ask(exchange_delete(exchange))


def test_another_type(client: Client, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire: types with a hyphen are quoted twice, as atoms and as values."""
    exchange = name("x")
    client.ask(exchange_declare(exchange, "x-consistent-hash", auto_delete=True))
    for kind, received in (("x-modulus-hash", "''x-modulus-hash''"), ("fanout", "'fanout'")):
        assert client.refusal(exchange_declare(exchange, kind, auto_delete=True)) == (
            f"channel 406 PRECONDITION_FAILED - inequivalent arg 'type' for exchange '{exchange}' in vhost '/': "
            f"received {received} but current is ''x-consistent-hash''"
        )
    client.ask(exchange_delete(exchange))


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("", "must be an integer: <<>>"),
        ("abc", 'must be an integer: <<"abc">>'),
        ("1.5", 'must be an integer: <<"1.5">>'),
        ("1_000", 'must be an integer: <<"1_000">>'),
        (" 1", 'must be an integer: <<" 1">>'),
        ('a"b\\', 'must be an integer: <<"a\\"b\\\\">>'),
        ("a\tb", 'must be an integer: <<"a\\tb">>'),
        ("é", 'must be an integer: <<"é">>'),
        ("€", "must be an integer: <<226,130,172>>"),
        ("\x01", "must be an integer: <<1>>"),
        ("0", "must be greater than 0"),
        ("-1", "must be greater than 0"),
        ("a" * 255, f'must be an integer: <<"{"a" * 191}...'),
    ],
)
def test_binding_keys_that_are_no_weights(spread: Spread, key: str, text: str) -> None:
    """RabbitMQ 3.10.8 on the wire; the binding is not made."""
    spread.declare("x-consistent-hash")
    refused = spread.client.refusal(queue_bind(spread.queues["a"], spread.exchange, key))
    assert refused == f"channel 406 PRECONDITION_FAILED - The binding key {text}"
    assert spread.places(1) == "-"


@pytest.mark.parametrize("key", ["+3", "007", "1"])
def test_binding_keys_that_are_weights(spread: Spread, key: str) -> None:
    """RabbitMQ 3.10.8 on the wire: whatever Erlang reads as an integer."""
    spread.declare("x-consistent-hash")
    spread.bind("a", key)
    assert spread.places(2) == "aa"


# Modulus hash


def test_the_remainder_chooses_the_binding(spread: Spread, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire: bindings in the order of their keys, then exchanges, then queues by name."""
    spread.declare("x-modulus-hash")
    assert spread.places(2) == "--"
    for letter, key in (("c", "1"), ("a", "2"), ("b", "2"), ("b", "0")):
        spread.bind(letter, key)
    ring = "cbacbbbccbbabcbacbbbabacabbbab"
    assert spread.places() == ring
    other, queue = name("x"), spread.queues["c"]
    spread.client.ask(exchange_declare(other, "fanout"))
    spread.client.ask(queue_bind(queue, other))
    spread.client.ask(exchange_bind(other, spread.exchange, "2"))
    assert spread.places() == "cacbcacccbcbcbcccabaccaaacbbba"
    spread.client.ask(exchange_unbind(other, spread.exchange, "2"))
    assert spread.places() == ring
    spread.client.ask(exchange_delete(other))
    spread.bind("a", "2", {"its own": "argument"})
    assert spread.places() == "cacbaacccbababaacabacaaaaabbba", "a binding more, though to the same queue"


def test_all_routing_keys_are_hashed(spread: Spread) -> None:
    """RabbitMQ 3.10.8 on the wire: with CC and BCC it is another list, and still one queue."""
    spread.declare("x-modulus-hash")
    for letter, key in (("c", "1"), ("a", "2"), ("b", "2"), ("b", "0")):
        spread.bind(letter, key)

    def copied(number: int) -> BasicProperties:
        return BasicProperties(headers=from_python({"CC": [f"zz{number}"]}))

    def secretly(number: int) -> BasicProperties:
        return BasicProperties(headers=from_python({"CC": [f"zz{number}"], "BCC": [f"yy{number}"]}))

    assert spread.places(properties=copied) == "bccbcbccccbcbbccbbbbbacabcbbcb"
    assert spread.places(properties=secretly) == "cbbbbccabbbbcabbcbbababbbbcccb"


def test_any_binding_key_and_argument_will_do(client: Client, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire: nothing is checked."""
    exchange, queue = name("x"), name()
    client.ask(exchange_declare(exchange, "x-modulus-hash", auto_delete=True, arguments={"hash-header": 5}))
    client.ask(queue_declare(queue, exclusive=True))
    client.ask(queue_bind(queue, exchange, "any thing"))
    client.publish(b"x", exchange=exchange, key="k")
    assert drain(client, queue) == [b"x"]
    assert not any(isinstance(item, ChannelClose) for item in client.arrived())
