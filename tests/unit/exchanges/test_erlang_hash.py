"""The hash functions rebuilt from Erlang's, and what the exchanges built on them promise."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.entities.arguments.erlang_terms import UNDEFINED, Atom, Term, printed, typed
from broker.entities.exchanges.erlang_hash import jump, phash2
from broker.wire.field_tables import Field
from harness.brokers.broker_core import Core

# Answers of Erlang/OTP 25


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (b"", 13708901),
        (b"a", 112802447),
        (b"twelve bytes", 93359736),
        (b"some.routing.key", 14376624),
        (bytes(range(100)), 117403407),
        (UNDEFINED, 45914356),
        ((Atom("longstr"), b"x"), 14442427),
        ((Atom("bool"), Atom("true")), 32030443),
        ((Atom("signedint"), 0), 66238499),
        ((Atom("signedint"), -5), 39932925),
        ((Atom("long"), (1 << 27) - 1), 33099472),
        ((Atom("long"), 1 << 27), 117666136),
        ((Atom("long"), -(1 << 27)), 13500176),
        ((Atom("long"), -(1 << 27) - 1), 132651809),
        ((Atom("long"), -(1 << 63)), 112631110),
        ((Atom("timestamp"), (1 << 64) - 1), 132064098),
        ((Atom("double"), 1.5), 115320697),
        ((Atom("double"), 0.0), 28702447),
        ((Atom("double"), -0.0), 28702447),
        ((Atom("decimal"), (2, 314)), 113508173),
        ((Atom("array"), []), 86211673),
        ((Atom("table"), [(b"k", Atom("longstr"), b"v")]), 95356243),
        ([b""], 38220213),
        ([b"a", b"b"], 3094894),
    ],
)
def test_phash2_answers_as_erlang_does(term: Term, expected: int) -> None:
    assert phash2(term) == expected


def test_jump_answers_as_the_plug_in_does() -> None:
    """rand:seed_s(exs1024, {Key, Key, Key}) and rand:uniform_s behind it."""
    answers = [jump(key * 97531, 1 + key**3) for key in range(1, 21)]
    assert answers == [0, 8, 14, 10, 56, 132, 132, 504, 698, 38, 282, 904, 2040, 2481, 1546, 1582, 507, 722, 6393, 5955]


@pytest.mark.parametrize(
    ("field", "text"),
    [
        (Field("S", b"text"), '{longstr,<<"text">>}'),
        (Field("S", b""), "{longstr,<<>>}"),
        (Field("S", b"\x1b\x00"), "{longstr,<<27,0>>}"),
        (Field("t", False), "{bool,false}"),
        (Field("V", None), "{void,undefined}"),
        (Field("D", (2, 314)), "{decimal,{2,314}}"),
        (Field("d", 1e-7), "{double,1.0e-7}"),
        (Field("F", {"a": Field("A", [Field("b", -1)])}), '{table,[{<<"a">>,array,[{byte,-1}]}]}'),
    ],
)
def test_terms_are_written_as_erlang_writes_them(field: Field, text: str) -> None:
    assert printed(typed(field)) == text


# What the ring promises, whoever computes it


@given(st.integers(0, (1 << 27) - 1), st.integers(1, 200), st.integers(1, 50))
def test_with_more_buckets_a_key_stays_or_goes_to_a_new_one(key: int, buckets: int, more: int) -> None:
    before, after = jump(key, buckets), jump(key, buckets + more)
    assert 0 <= before < buckets
    assert after == before or buckets <= after < buckets + more


weights = st.lists(st.integers(1, 9), min_size=1, max_size=6)


@pytest.mark.slow
@settings(max_examples=30)
@given(weights, st.integers(1, 9), st.lists(st.text(max_size=8), min_size=1, max_size=30, unique=True))
def test_a_new_binding_takes_from_the_others_and_gives_them_nothing(
    tmp_path_factory: pytest.TempPathFactory, bound: list[int], weight: int, keys: list[str]
) -> None:
    core = Core(tmp_path_factory.mktemp("ring"))
    exchange = core.exchange("x", "x-consistent-hash")
    for number, old in enumerate(bound):
        core.bind(exchange, core.queue(f"q{number}"), str(old))
    before = {key: core.routed("x", key) for key in keys}
    assert before == {key: core.routed("x", key) for key in keys}
    new = core.queue("new")
    core.bind(exchange, new, str(weight))
    for key in keys:
        assert core.routed("x", key) in (before[key], ["new"])
    core.unbind(exchange, new, str(weight))
    assert before == {key: core.routed("x", key) for key in keys}
    core.close()


def test_queues_get_shares_by_their_weights(core: Core) -> None:
    exchange = core.exchange("x", "x-consistent-hash")
    for name, weight in (("one", "1"), ("two", "2"), ("seven", "7")):
        core.bind(exchange, core.queue(name), weight)
    counts = Counter(queue for number in range(5000) for queue in core.routed("x", f"key {number}"))
    assert sum(counts.values()) == 5000
    for name, share in (("one", 500), ("two", 1000), ("seven", 3500)):
        assert abs(counts[name] - share) < 100, counts


def test_a_large_weight_costs_nothing(core: Core) -> None:
    exchange = core.exchange("x", "x-consistent-hash")
    core.bind(exchange, core.queue("light"), "1")
    core.bind(exchange, core.queue("heavy"), "9" * 200)
    assert {queue for number in range(100) for queue in core.routed("x", str(number))} == {"heavy"}


def test_the_ring_is_the_same_after_a_restart(core: Core) -> None:
    """In RabbitMQ the bindings come back in the order of their keys, and many values move."""
    exchange = core.exchange("x", "x-consistent-hash")
    for name, weight in (("c", "3"), ("a", "1"), ("b", "2")):
        core.bind(exchange, core.queue(name), weight)
    before = [core.routed("x", str(number)) for number in range(50)]
    core.restart()
    assert [core.routed("x", str(number)) for number in range(50)] == before
    assert len({name for (name,) in before}) == 3


def test_what_a_hash_exchange_matches_by_the_key_alone_may_be_remembered(core: Core) -> None:
    queue = core.queue()
    for number, (kind, arguments, lasting) in enumerate(
        [
            ("x-consistent-hash", {}, True),
            ("x-modulus-hash", {}, True),
            ("x-consistent-hash", {"hash-header": "h"}, False),
            ("x-consistent-hash", {"hash-property": "message_id"}, False),
            ("x-random", {}, False),
            ("x-local-random", {}, False),
            ("x-recent-history", {}, False),
        ]
    ):
        exchange = core.exchange(f"x{number}", kind, arguments=arguments)
        core.bind(exchange, queue, "1" if kind == "x-consistent-hash" else "")
        routes = core.vhost.route(exchange, ("k",), {})
        assert (routes.queues, routes.lasting) == ((queue,), lasting), kind
        outer = core.exchange(f"outer{number}", "fanout")
        core.bind(outer, exchange)
        assert core.vhost.route(outer, ("k",), {}).lasting is lasting, kind
