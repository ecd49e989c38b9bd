"""x-consistent-hash and x-modulus-hash: RabbitMQ's plugins, down to the queue that each value goes to.

The names that these tests expect are the last characters of the queues in which RabbitMQ 3.10.8 put the messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from broker.entities.arguments.personality import Series
from broker.wire.field_tables import Field
from broker.wire.methods import BasicReturn, ConnectionClose
from broker.wire.properties import BasicProperties
from harness.clients.contents import with_headers
from harness.clients.queue_steps import drain
from harness.clients.shorthand import (
    exchange_bind,
    exchange_declare,
    exchange_unbind,
    queue_bind,
    queue_declare,
    queue_unbind,
)
from harness.clients.wire_client import Client
from tests.conformance import Made

Properties = Callable[[int], BasicProperties | None]


class Spread:
    """An exchange and the queues a, b and c, whose names end so."""

    def __init__(self, client: Client, own: str, exchange: str) -> None:
        self.client = client
        self.exchange = exchange
        self.queues = {letter: f"q{own}.{letter}" for letter in "abc"}
        for queue in self.queues.values():
            client.ask(queue_declare(queue, exclusive=True))

    def bind(self, letter: str, key: str, arguments: Mapping[str, Any] | None = None) -> None:
        self.client.ask(queue_bind(self.queues[letter], self.exchange, key, arguments=arguments))

    def unbind(self, letter: str, key: str) -> None:
        self.client.ask(queue_unbind(self.queues[letter], self.exchange, key))

    def ring(self) -> None:
        """Weights 1, 2 and 3 for a, b and c."""
        for letter, weight in zip("abc", "123", strict=True):
            self.bind(letter, weight)

    def places(self, count: int = 30, properties: Properties = lambda number: None) -> str:
        """Publish key0, key1 and so on; the last characters of the queues they went to, `-` for none."""
        for number in range(count):
            self.client.publish(
                b"%d" % number, exchange=self.exchange, key=f"key{number}", properties=properties(number)
            )
        found: dict[int, str] = {}
        for letter, queue in self.queues.items():
            for body in drain(self.client, queue):
                found[int(body)] = found.get(int(body), "") + letter
        return "".join(found.get(number, "-") for number in range(count))


Spreading = Callable[..., Spread]


@pytest.fixture
def spreading(client: Client, name: Made, new_exchange: Made) -> Spreading:
    """A function that makes an exchange with three queues: `spreading({"hash-header": "h"})` of one with arguments."""

    def made(arguments: Mapping[str, Any] | None = None, kind: str = "x-consistent-hash") -> Spread:
        return Spread(client, name(""), new_exchange(kind, arguments=arguments))

    return made


@pytest.fixture
def spread(spreading: Spreading) -> Spread:
    """A consistent hash exchange with three queues that are not bound yet."""
    return spreading()


@pytest.fixture
def remainders(spreading: Spreading) -> Spread:
    """A modulus hash exchange with four bindings: in the order of their keys, b, c, a, b."""
    made = spreading(kind="x-modulus-hash")
    for letter, key in (("c", "1"), ("a", "2"), ("b", "2"), ("b", "0")):
        made.bind(letter, key)
    return made


OF_KEYS = "bcccccbcbccbaccccccabbccbabacb"


# Consistent hash: the ring


def test_each_key_has_its_queue(spread: Spread) -> None:
    """Binding keys are weights, the same key goes to the same queue, each to one. Keys in CC are not looked at."""
    spread.ring()
    copied = with_headers({"CC": ["one", "two"], "BCC": ["three"]})
    for properties in (None, None, copied):
        assert spread.places(properties=lambda number, said=properties: said) == OF_KEYS  # type: ignore[misc]


def test_a_ring_of_one_takes_everything_and_an_empty_one_nothing(spread: Spread) -> None:
    assert spread.places(3) == "---"
    spread.bind("b", "7")
    assert spread.places(5) == "bbbbb"
    spread.unbind("b", "7")
    spread.client.publish(b"x", exchange=spread.exchange, key="k", mandatory=True)
    assert spread.client.expect_message(BasicReturn).method.reply_text == "NO_ROUTE"


def test_who_is_bound_later_takes_over_a_few_keys(spread: Spread, new_exchange: Made) -> None:
    """Jump consistent hash, the new one's buckets come last: an exchange may be on the ring as well as a queue."""
    spread.bind("c", "3")
    spread.bind("a", "1")
    assert spread.places() == "cacaaacaccaccaacccacccaaccccac"
    spread.bind("b", "2")
    with_b = "cabaaacbcbbccaabbbacccaaccccac"
    assert spread.places() == with_b
    spread.unbind("b", "2")
    fanout = new_exchange("fanout")
    spread.client.ask(queue_bind(spread.queues["b"], fanout))
    spread.client.ask(exchange_bind(fanout, spread.exchange, "2"))
    assert spread.places() == with_b
    refused = "channel 406 PRECONDITION_FAILED - The binding key must be an integer: <<>>"
    assert spread.client.refusal(exchange_bind(fanout, spread.exchange, "")) == refused


def test_a_queue_is_on_the_ring_once(spread: Spread) -> None:
    """A second binding adds nothing, and with either of them the queue leaves the ring."""
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


# Consistent hash: what is hashed


@pytest.mark.parametrize(
    ("header", "of_3", "of_4"),
    [
        (lambda n: Field("S", b"v%d" % n), "cbbbccccbcaaaaccbabc", "bcbbccbaabbabbacbcbb"),
        (lambda n: Field("x", b"v%d" % n), "ccababcacccbcbaabcbb", "bcbbccbaabbabbacbcbb"),
        (lambda n: Field("b", n), "abccbccccbbccbbcbbcc", "ccabccccbcccbccaabba"),
        (lambda n: Field("B", n), "ccbaacbacbcbaccbccbb", "ccabccccbcccbccaabba"),
        (lambda n: Field("s", n), "ccbbcbcbacbcbbccccca", "ccabccccbcccbccaabba"),
        (lambda n: Field("u", n), "bbaccabacbbcbaccbccc", "ccabccccbcccbccaabba"),
        (lambda n: Field("I", n * 99), "cbcbcccccccacbbbcacc", "cccccacbcbccccbbccbb"),
        (lambda n: Field("i", n), "cbcbcabbabaacabbccac", "ccabccccbcccbccaabba"),
        (lambda n: Field("l", -n * (1 << 35)), "aacbbbbbbcbcaccbbbca", "cccccccccccccccccccc"),
        (lambda n: Field("f", n * 1.5), "bcbaccccbacaaccaacbb", "aacabcbcabbbccbbabbb"),
        (lambda n: Field("d", n * 1.5), "ccbcccaccbbaacbcbcbb", "aacabcbcabbbccbbabbb"),
        (lambda n: Field("D", (2, n)), "cccaaaccccbcbbcccaab", "accbcccaccabcccacccb"),
        (lambda n: Field("T", n * 1000), "cbccbcccbabcbccbbcbb", "cacbccaabbcbcacccabb"),
        (lambda n: Field("t", n % 2 == 1), "bcbcbcbcbcbcbcbcbcbc", "aaaaaaaaaaaaaaaaaaaa"),
        (lambda n: Field("V", None), "aaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbb"),
        (lambda n: Field("A", [Field("I", n), Field("S", b"q")]), "bbacabccccacbbbccbcc", "ccbbacbaccccbcbbbabb"),
        (
            lambda n: Field("F", {"k": Field("I", n), "j": Field("S", b"q")}),
            "bbbccccaacaacacacccb",
            "bbbccbabacbcbbcbbaac",
        ),
    ],
    ids=list("SxbBsuIilfdDTtVAF"),
)
def test_a_header_is_hashed(
    spreading: Spreading, series: Series, header: Callable[[int], Field], of_3: str, of_4: str
) -> None:
    """4.2: its value without the type, and integers as they are."""
    spread = spreading({"hash-header": "h"})
    spread.ring()
    places = of_3 if series < (4, 0) else of_4
    assert spread.places(20, lambda number: BasicProperties(headers={"h": header(number)})) == places


CORRELATION = {"hash-property": "correlation_id"}


@pytest.mark.parametrize(
    ("arguments", "properties", "places"),
    [
        ({"hash-property": "message_id"}, lambda n: BasicProperties(message_id=f"m{n}"), "ccccccbccbccbccabccc"),
        (CORRELATION, lambda n: BasicProperties(correlation_id=f"m{n}"), "ccccccbccbccbccabccc"),
        ({"hash-property": "timestamp"}, lambda n: BasicProperties(timestamp=1000 + n), "cbcabaabbcccccacbbbc"),
        ({"hash-property": "message_id"}, lambda n: BasicProperties(correlation_id=f"m{n}"), "b" * 20),
        ({"hash-property": "timestamp"}, lambda n: None, "b" * 20),
        ({"hash-header": "h"}, lambda n: with_headers({"other": 1}) if n % 2 else None, "b" * 20),
    ],
)
def test_a_property_is_hashed(
    spreading: Spreading, arguments: dict[str, str], properties: Properties, places: str
) -> None:
    """All messages without the property or the header are equal."""
    spread = spreading(arguments)
    spread.ring()
    assert spread.places(20, properties) == places


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
def test_impossible_arguments(client: Client, name: Made, arguments: dict[str, Any], text: str) -> None:
    refused = client.refusal(exchange_declare(name("x"), "x-consistent-hash", arguments=arguments))
    assert refused == f"channel 406 PRECONDITION_FAILED - {text}"


@pytest.mark.parametrize("argument", ["hash-header", "hash-property"])
def test_an_argument_that_is_no_string(client: Client, name: Made, argument: str) -> None:
    """It fails, says so, and drops the connection."""
    client.send(exchange_declare(name("x"), "x-consistent-hash", arguments={argument: 5}))
    assert client.expect(ConnectionClose).reply_code == 541


def test_declaring_again(client: Client, new_exchange: Made) -> None:
    """Arguments are neither compared nor checked; types with a hyphen are quoted twice, as atoms and as values."""
    exchange = new_exchange("x-consistent-hash", arguments={"hash-header": "h"})
    for arguments in ({}, {"hash-header": "other"}, {"hash-property": "nonsense"}):
        client.ask(exchange_declare(exchange, "x-consistent-hash", arguments=arguments))
    for kind, received in (("x-modulus-hash", "''x-modulus-hash''"), ("fanout", "'fanout'")):
        assert client.refusal(exchange_declare(exchange, kind)) == (
            f"channel 406 PRECONDITION_FAILED - inequivalent arg 'type' for exchange '{exchange}' in vhost '/': "
            f"received {received} but current is ''x-consistent-hash''"
        )


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
        *((weight, None) for weight in ("+3", "007", "1")),
    ],
)
def test_binding_keys_are_weights(spread: Spread, key: str, text: str | None) -> None:
    """Anything that Erlang reads as an integer; else the binding is not made."""
    if text is None:
        spread.bind("a", key)
    else:
        refused = spread.client.refusal(queue_bind(spread.queues["a"], spread.exchange, key))
        assert refused == f"channel 406 PRECONDITION_FAILED - The binding key {text}"
    assert spread.places(2) == ("--" if text else "aa")


# Modulus hash


def test_the_remainder_chooses_the_binding(spreading: Spreading, remainders: Spread, new_exchange: Made) -> None:
    """Bindings in the order of their keys, then exchanges, then queues by name."""
    assert spreading(kind="x-modulus-hash").places(2) == "--"
    spread = remainders
    ring = "cbacbbbccbbabcbacbbbabacabbbab"
    assert spread.places() == ring
    other = new_exchange("fanout")
    spread.client.ask(queue_bind(spread.queues["c"], other))
    spread.client.ask(exchange_bind(other, spread.exchange, "2"))
    assert spread.places() == "cacbcacccbcbcbcccabaccaaacbbba"
    spread.client.ask(exchange_unbind(other, spread.exchange, "2"))
    assert spread.places() == ring
    spread.bind("a", "2", {"its own": "argument"})
    assert spread.places() == "cacbaacccbababaacabacaaaaabbba", "a binding more, though to the same queue"


def test_all_routing_keys_are_hashed(remainders: Spread) -> None:
    """With CC and BCC it is another list, and still one queue."""
    for blind, places in (({}, "bccbcbccccbcbbccbbbbbacabcbbcb"), ({"BCC": "yy"}, "cbbbbccabbbbcabbcbbababbbbcccb")):
        keys = {"CC": "zz", **blind}

        def copied(number: int, keys: dict[str, str] = keys) -> BasicProperties:
            return with_headers({header: [f"{start}{number}"] for header, start in keys.items()})

        assert remainders.places(properties=copied) == places


def test_any_binding_key_and_argument_will_do(client: Client, new_exchange: Made, new_queue: Made) -> None:
    """Nothing is checked."""
    queue = new_queue(exchange := new_exchange("x-modulus-hash", arguments={"hash-header": 5}), "any thing")
    client.publish(b"x", exchange=exchange, key="k")
    assert drain(client, queue) == [b"x"]
