"""What each type of exchange matches, alone and joined with others."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.entities.exchanges.topic_trie import TopicTrie, words
from broker.wire.amqp_errors import ChannelException
from broker.wire.field_tables import Field, Table
from harness.brokers.broker_core import Core

# Topics


def as_regex(pattern: str) -> re.Pattern[str]:
    """A binding key as a regular expression over a routing key whose words each end in a full stop."""
    parts = {"*": r"[^.]*\.", "#": r"(?:[^.]*\.)*"}
    return re.compile("".join(parts.get(word, re.escape(word) + r"\.") for word in words(pattern)))


def spelled(key: str) -> str:
    return "".join(word + "." for word in words(key))


keys = st.lists(st.sampled_from(["a", "b", "", "*", "#"]), max_size=6).map(".".join)
patterns = st.lists(st.sampled_from(["a", "b", "", "*", "#"]), max_size=6).map(".".join)


@given(st.lists(patterns, max_size=12, unique=True), st.lists(keys, min_size=1, max_size=5), st.data())
def test_the_trie_matches_as_regular_expressions_do(bound: list[str], sent: list[str], data: st.DataObject) -> None:
    trie: TopicTrie[str] = TopicTrie()
    for pattern in bound:
        trie.add(pattern, pattern)
    for pattern in data.draw(st.lists(st.sampled_from(bound), unique=True)) if bound else []:
        trie.remove(pattern, pattern)
        bound = [other for other in bound if other != pattern]
    for key in sent:
        expected = {pattern for pattern in bound if as_regex(pattern).fullmatch(spelled(key))}
        assert set(trie.match(key)) == expected, key


def test_wildcards_in_long_routing_keys_do_not_multiply() -> None:
    """In a routing key they are words; reached in two ways at each of 120 places, this would never end."""
    trie: TopicTrie[str] = TopicTrie()
    for pattern in ("*", "#"):
        trie.add(".".join(pattern * 120), pattern)
    for key in (".".join("*" * 120), ".".join("#" * 120)):
        assert sorted(trie.match(key)) == ["#", "*"]


@given(st.lists(patterns, unique=True))
def test_an_emptied_trie_is_empty(bound: list[str]) -> None:
    trie: TopicTrie[str] = TopicTrie()
    for pattern in bound:
        trie.add(pattern, pattern)
    for pattern in bound:
        trie.remove(pattern, pattern)
    assert not trie.values
    assert not trie._children


def test_many_hashes_do_not_take_forever() -> None:
    """Without remembering where it has been, a match of this would visit more places than there is time for."""
    trie: TopicTrie[str] = TopicTrie()
    trie.add(".".join(["#"] * 30 + ["end"]), "x")
    assert list(trie.match(".".join(["a"] * 60))) == []


# Headers: every row was asked of RabbitMQ 3.10.8, where noted; the rest is its documentation


SAME = [
    ("I", 5, "l", 5),
    ("I", 5, "b", 5),
    ("u", 7, "I", 7),
    ("i", 7, "I", 7),
    ("s", 7, "I", 7),
    ("B", 7, "I", 7),
    ("T", 1, "l", 1),
    ("d", 1.0, "I", 1),
    ("d", 1.0, "f", 1.0),
    ("S", b"a", "x", b"a"),
    ("V", None, "I", 1),
    ("V", None, "S", b""),
    ("t", True, "t", True),
]
DIFFERENT = [
    ("I", 5, "I", 6),
    ("S", b"5", "I", 5),
    ("I", 1, "V", None),
    ("t", True, "I", 1),
    ("I", 0, "t", False),
    ("S", b"a", "S", b"b"),
    ("t", True, "t", False),
]


@pytest.mark.parametrize(
    ("wanted", "sent", "matches"),
    [(Field(a, b), Field(c, d), True) for a, b, c, d in SAME]
    + [(Field(a, b), Field(c, d), False) for a, b, c, d in DIFFERENT],
)
def test_what_counts_as_the_same_value(core: Core, wanted: Field, sent: Field, matches: bool) -> None:
    """3.10.8 on the wire: numbers by value whatever their kind, strings and byte arrays by their bytes."""
    exchange, queue = core.exchange("x", "headers"), core.queue()
    arguments: Table = {"x-match": Field("S", b"all"), "k": wanted}
    core.vhost.bindings.bind(exchange.binding(queue, "", arguments), arguments).result()
    routes = core.vhost.route(exchange, ("",), {"k": sent})
    assert bool(routes.queues) is matches


@pytest.mark.parametrize(
    ("mode", "headers", "matches"),
    [
        ("all", {"a": 1, "b": 2}, True),
        ("all", {"a": 1, "b": 2, "c": 3}, True),
        ("all", {"a": 1}, False),
        ("all", {}, False),
        (None, {"a": 1, "b": 2}, True),
        (None, {"a": 1}, False),
        ("any", {"a": 1}, True),
        ("any", {"b": 2, "c": 3}, True),
        ("any", {"a": 2}, False),
        ("any", {}, False),
        ("all-with-x", {"a": 1, "b": 2}, False),
        ("all-with-x", {"a": 1, "b": 2, "x-k": 3}, True),
        ("any-with-x", {"x-k": 3}, True),
        ("any-with-x", {"a": 1}, True),
        ("any", {"x-k": 3}, False),
    ],
)
def test_how_many_must_match(core: Core, mode: str | None, headers: dict[str, int], matches: bool) -> None:
    exchange, queue = core.exchange("x", "headers"), core.queue()
    arguments = {"a": 1, "b": 2, "x-k": 3} | ({} if mode is None else {"x-match": mode})
    core.bind(exchange, queue, arguments=arguments)
    assert bool(core.routed("x", "whatever", headers)) is matches


@pytest.mark.parametrize(("mode", "matches"), [("all", True), ("any", False)])
def test_nothing_to_match(core: Core, mode: str, matches: bool) -> None:
    exchange, queue = core.exchange("x", "headers"), core.queue()
    core.bind(exchange, queue, arguments={"x-match": mode})
    assert bool(core.routed("x", "", {"a": 1})) is matches


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        ("some", 'Invalid x-match field value <<"some">>; expected all, any, all-with-x, or any-with-x'),
        (1, "Invalid x-match field type signedint (value 1); expected longstr"),
    ],
)
def test_a_mode_that_is_none(core: Core, mode: object, text: str) -> None:
    exchange, queue = core.exchange("x", "headers"), core.queue()
    with pytest.raises(ChannelException) as refusal:
        core.bind(exchange, queue, arguments={"x-match": mode})
    assert refusal.value.text == text
    assert exchange.bindings == {}
    assert core.definitions.bindings == {}, "refused before it was written"


def test_the_order_of_arguments_makes_no_other_binding(core: Core) -> None:
    """Bound with a and b, unbound with b and a: gone (3.10.8 on the wire)."""
    exchange, queue = core.exchange("x", "headers"), core.queue()
    core.bind(exchange, queue, arguments={"a": 1, "b": 2})
    core.bind(exchange, queue, arguments={"b": 2, "a": 1})
    assert len(exchange.bindings) == 1
    core.unbind(exchange, queue, arguments={"b": 2, "a": 1})
    assert core.routed("x", "", {"a": 1, "b": 2}) == []


# Direct and fanout


def test_direct_goes_by_the_whole_key(core: Core) -> None:
    exchange = core.exchange("x")
    for name, key in (("one", "k"), ("two", "k"), ("three", "k.k"), ("four", "")):
        core.bind(exchange, core.queue(name), key)
    assert core.routed("x", "k") == ["one", "two"]
    assert core.routed("x", "k.k") == ["three"]
    assert core.routed("x", "") == ["four"]
    assert core.routed("x", "other") == []


def test_fanout_goes_everywhere_once(core: Core) -> None:
    exchange, queue = core.exchange("x", "fanout"), core.queue()
    for key in ("a", "b"):
        core.bind(exchange, queue, key)
    core.bind(exchange, core.queue("other"))
    assert core.routed("x", "whatever") == ["other", "q"]
    core.unbind(exchange, queue, "a")
    assert core.routed("x", "whatever") == ["other", "q"]
    core.unbind(exchange, queue, "b")
    assert core.routed("x", "whatever") == ["other"]


def test_the_default_exchange_goes_by_queue_name(core: Core) -> None:
    core.queue("one")
    assert core.routed("", "one") == ["one"]
    assert core.routed("", "two") == []


# Exchanges joined


def test_a_circle_of_exchanges_ends(core: Core) -> None:
    ring = [core.exchange(name, "fanout") for name in "abc"]
    for source, destination in zip(ring, ring[1:] + ring[:1], strict=True):
        core.bind(source, destination)
        core.bind(source, core.queue("q" + source.name))
    core.bind(ring[0], ring[0])
    assert core.routed("b", "") == ["qa", "qb", "qc"]


def test_every_exchange_on_the_way_has_its_say(core: Core) -> None:
    first, second = core.exchange("first", "topic"), core.exchange("second", "direct")
    core.bind(first, second, "#")
    core.bind(second, core.queue("q"), "a.b")
    assert core.routed("first", "a.b") == ["q"]
    assert core.routed("first", "a.c") == []


def test_alternates_are_asked_in_turn(core: Core) -> None:
    core.exchange("x", arguments={"alternate-exchange": "second"})
    second = core.exchange("second", arguments={"alternate-exchange": "third"})
    core.bind(second, core.queue("q2"), "k")
    core.bind(core.exchange("third", "fanout"), core.queue("q3"))
    assert core.routed("x", "k") == ["q2"]
    assert core.routed("x", "other") == ["q3"]


def test_alternates_in_a_circle_end(core: Core) -> None:
    core.exchange("x", arguments={"alternate-exchange": "y"})
    core.exchange("y", arguments={"alternate-exchange": "x"})
    assert core.routed("x", "k") == []


def test_an_alternate_that_is_not_there_takes_the_message_away(core: Core) -> None:
    core.exchange("x", arguments={"alternate-exchange": "nowhere"})
    assert core.routed("x", "k") == []


def test_a_match_that_leads_nowhere_is_a_match(core: Core) -> None:
    """The alternate is for what no binding matches; that the next exchange has no use for it is no reason."""
    exchange = core.exchange("x", arguments={"alternate-exchange": "spare"})
    core.bind(exchange, core.exchange("dead end"), "k")
    core.bind(core.exchange("spare", "fanout"), core.queue())
    assert core.routed("x", "k") == []
    assert core.routed("x", "other") == ["q"]


# What goes with what


def test_an_auto_delete_exchange_goes_with_its_last_binding(core: Core) -> None:
    exchange = core.exchange("x", "fanout", auto_delete=True)
    queue, other = core.queue("one"), core.queue("two")
    assert "x" in core.vhost.exchanges, "never bound, never gone"
    core.bind(exchange, queue)
    core.bind(exchange, other)
    core.unbind(exchange, queue)
    assert "x" in core.vhost.exchanges
    core.vhost.delete_queue(other)
    assert "x" not in core.vhost.exchanges
    assert "x" not in core.definitions.exchanges


def test_one_goes_after_the_other(core: Core) -> None:
    chain = [core.exchange(name, "fanout", auto_delete=True) for name in "abc"]
    queue = core.queue()
    core.bind(chain[0], chain[1])
    core.bind(chain[1], chain[2])
    core.bind(chain[2], queue)
    core.vhost.delete_queue(queue)
    assert not {"a", "b", "c"} & core.vhost.exchanges.keys()
    assert core.definitions.exchanges == {}
    assert core.definitions.bindings == {}


def test_being_bound_to_keeps_nothing_alive(core: Core) -> None:
    source, destination = core.exchange("source", "fanout"), core.exchange("x", "fanout", auto_delete=True)
    queue = core.queue()
    core.bind(source, destination)
    core.bind(destination, queue)
    core.unbind(destination, queue)
    assert "x" not in core.vhost.exchanges
    assert source.bindings == {}
    core.bind(source, queue)
    assert core.routed("source", "") == ["q"]


def test_a_deleted_exchange_leaves_no_binding_behind(core: Core) -> None:
    source, exchange, queue = core.exchange("source", "fanout"), core.exchange("x", "fanout"), core.queue()
    core.bind(source, exchange)
    core.bind(exchange, queue)
    core.bind(exchange, exchange)
    core.vhost.delete_exchange(exchange)
    assert (source.bindings, core.definitions.bindings) == ({}, {})


def test_durable_bindings_come_back_and_others_do_not(core: Core) -> None:
    lasting, passing = core.exchange("lasting", "topic"), core.exchange("passing", "fanout", durable=False)
    queue = core.queue()
    core.bind(lasting, queue, "a.*")
    core.bind(lasting, queue, "b.#", {"note": "x"})
    core.bind(passing, queue)
    core.bind(lasting, passing, "c")
    core.restart()
    assert core.routed("lasting", "a.x") == core.routed("lasting", "b") == ["q"]
    assert core.routed("lasting", "c") == []
    assert "passing" not in core.vhost.exchanges


# What is remembered of routes


def test_exchanges_that_go_with_a_queue_leave_the_others_alone(core: Core) -> None:
    """So that many of them are no more than each of them: nothing is done to all that there are."""
    bystander, queue = core.exchange("bystander"), core.queue()
    for number in range(3):
        core.bind(core.exchange(f"goes {number}", auto_delete=True), queue)
    before = bystander.version, core.broker.cache_epoch.number
    core.vhost.delete_queue(queue)
    assert [name for name in core.vhost.exchanges if name.startswith("goes")] == []
    assert (bystander.version, core.broker.cache_epoch.number) == before


def test_what_changes_behind_another_exchange_is_one_step(core: Core) -> None:
    bystander, first, second = core.exchange("bystander"), core.exchange("first"), core.exchange("second")
    core.bind(first, second)
    before = bystander.version, core.broker.cache_epoch.number
    core.bind(second, core.queue())
    assert (bystander.version, core.broker.cache_epoch.number) == (before[0], before[1] + 1)
