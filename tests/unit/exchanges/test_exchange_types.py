"""Matches of topics and headers, and exchanges that may be bound together."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.entities.exchanges.topic_trie import TopicTrie, words
from broker.wire.field_tables import Field
from harness.brokers.broker_core import Core

# Topics


def as_regex(pattern: str) -> re.Pattern[str]:
    """A binding key as a regular expression over a routing key whose words each end in a full stop."""
    parts = {"*": r"[^.]*\.", "#": r"(?:[^.]*\.)*"}
    return re.compile("".join(parts.get(word, re.escape(word) + r"\.") for word in words(pattern)))


def spelled(key: str) -> str:
    return "".join(word + "." for word in words(key))


patterns = st.lists(st.sampled_from(["a", "b", "", "*", "#"]), max_size=6).map(".".join)


@given(st.lists(patterns, max_size=12, unique=True), st.lists(patterns, min_size=1, max_size=5), st.data())
def test_the_trie_matches_as_regular_expressions_do(bound: list[str], sent: list[str], data: st.DataObject) -> None:
    """Patterns are removed in any order; with the last pattern its last branch goes."""
    trie: TopicTrie[str] = TopicTrie()
    for pattern in bound:
        trie.add(pattern, pattern)
    for pattern in data.draw(st.lists(st.sampled_from(bound), unique=True)) if bound else []:
        trie.remove(pattern, pattern)
        bound = [other for other in bound if other != pattern]
    for key in sent:
        expected = {pattern for pattern in bound if as_regex(pattern).fullmatch(spelled(key))}
        assert set(trie.match(key)) == expected, key
    for pattern in bound:
        trie.remove(pattern, pattern)
    assert not trie.values
    assert not trie._children


@pytest.mark.parametrize(
    ("bound", "key", "matched"),
    [
        (["*" * 120, "#" * 120], "*" * 120, ["#", "*"]),
        (["*" * 120, "#" * 120], "#" * 120, ["#", "*"]),
        (["#" * 30 + "e"], "a" * 60, []),
    ],
    ids=["asterisks in the key", "hashes in the key", "hashes in the binding"],
)
def test_wildcards_do_not_multiply(bound: list[str], key: str, matched: list[str]) -> None:
    """A match that did not remember where it has been would visit more places than there is time for."""
    trie: TopicTrie[str] = TopicTrie()
    for pattern in bound:
        trie.add(".".join(pattern), pattern[0])
    assert sorted(trie.match(".".join(key))) == matched


# Headers


@pytest.mark.parametrize(
    ("wanted", "sent", "matches"),
    [
        (Field("I", 5), Field("b", 5), True),
        (Field("u", 7), Field("I", 7), True),
        (Field("i", 7), Field("I", 7), True),
        (Field("s", 7), Field("I", 7), True),
        (Field("B", 7), Field("I", 7), True),
        (Field("T", 1), Field("l", 1), True),
        (Field("d", 1.0), Field("I", 1), False),
        (Field("d", 1.0), Field("f", 1.0), True),
        (Field("S", b"a"), Field("x", b"a"), True),
        (Field("V", None), Field("S", b""), True),
        (Field("t", True), Field("t", True), True),
        (Field("I", 5), Field("I", 6), False),
        (Field("I", 1), Field("V", None), False),
        (Field("t", True), Field("I", 1), False),
        (Field("I", 0), Field("t", False), False),
        (Field("S", b"a"), Field("S", b"b"), False),
        (Field("t", True), Field("t", False), False),
    ],
)
def test_what_counts_as_the_same_value(core: Core, wanted: Field, sent: Field, matches: bool) -> None:
    """Numbers by value, integers apart from others since 3.13; strings and byte arrays by their bytes."""
    exchange, queue = core.exchange("x", "headers"), core.queue()
    core.bind(exchange, queue, arguments={"x-match": "all", "k": wanted})
    assert core.routed("x", "", {"k": sent}) == (["q"] if matches else [])


# What goes with what


def test_one_goes_after_the_other(core: Core) -> None:
    """Along a chain of auto-delete exchanges; being bound to keeps nothing alive, and a binding to itself neither."""
    source, *chain = core.exchange("source", "fanout"), *(core.exchange(n, "fanout", auto_delete=True) for n in "abc")
    queue = core.queue()
    for before, after in pairwise([source, *chain, queue]):
        core.bind(before, after)
    core.vhost.delete_queue(queue)
    assert not {"a", "b", "c"} & core.vhost.exchanges.keys()
    assert source.bindings == {}
    core.bind(source, source)
    core.vhost.delete_exchange(source)
    assert (core.definitions.exchanges, core.definitions.bindings) == ({}, {})
