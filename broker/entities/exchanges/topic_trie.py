"""The trie of topic exchanges.

A binding key is a path of words. `*` matches exactly one word, `#` any number of words, including none. As in RabbitMQ
the empty routing key has no words, so `#` and the empty key match it and `*` does not, while "a..b" has an empty word
in the middle that `*` matches.

Several branches may be reached at once. The nodes that the first words of a key reach are cached, so that a later key
takes one look-up per word; all words that no binding names share one cache entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from broker.wire.amqp_errors import precondition_failed

T = TypeVar("T")

WILDCARDS = ("*", "#")
REMEMBERED_MAX = 32_768
"""Most nodes and values in the cache of reached branches, which every added or removed binding clears."""


def words(key: str) -> list[str]:
    """Return the words of a routing or binding key."""
    return key.split(".") if key else []


def check_wildcards(key: str, most: int) -> None:
    """Raise ChannelException 406 for a binding key with more words `#`: RabbitMQ's bound on the work of a match."""
    count = words(key).count("#")
    if count > most:
        text = f"Topic binding key '{key}' uses {count} '#' wildcards, at most {most} are allowed"
        raise precondition_failed(text)


class TopicTrie(Generic[T]):
    """Values under binding keys, found by routing key."""

    __slots__ = ("_children", "_remembered", "_rest", "_start", "values")

    def __init__(self, *, rest: bool = False) -> None:
        self._children: dict[str, TopicTrie[T]] = {}
        self._rest = rest
        self._start: _Reached[T] | None = None
        """The branches reached before the first word; only the root has it."""
        self._remembered = 0
        self.values: dict[T, None] = {}

    def add(self, key: str, value: T) -> None:
        """Add a value under a binding key."""
        node, self._start = self, None
        for word in words(key):
            child = node._children.get(word)
            if child is None:
                child = node._children[word] = TopicTrie(rest=word == "#")
            node = child
        node.values[value] = None

    def remove(self, key: str, value: T) -> None:
        """Remove a value, and branches without values."""
        path, node, self._start = [], self, None
        for word in words(key):
            path.append((node, word))
            node = node._children[word]
        del node.values[value]
        for parent, word in reversed(path):
            child = parent._children[word]
            if child.values or child._children:
                break
            del parent._children[word]

    def match(self, key: str) -> list[T]:
        """Return every value whose binding key matches a routing key; a value may be repeated."""
        reached = self._start or self._begin()
        for word in words(key):
            reached = reached.further.get(word) or self._follow(reached, word)
        return reached.values

    def _begin(self) -> _Reached[T]:
        nodes: dict[TopicTrie[T], None] = {}
        self._reach(nodes)
        self._start, self._remembered = _Reached(nodes), 0
        return self._start

    def _follow(self, reached: _Reached[T], word: str) -> _Reached[T]:
        """Return the branches that the next word reaches, and cache them.

        In a routing key, `*` and `#` are ordinary words.
        """
        named = word not in WILDCARDS and any(word in node._children for node in reached.nodes)
        if not named and reached.unnamed is not None:
            return reached.unnamed
        nodes: dict[TopicTrie[T], None] = {}
        for node in reached.nodes:
            if node._rest:  # behind "#": it matches this word too
                node._reach(nodes)
            children = node._children
            if named and word in children:
                children[word]._reach(nodes)
            if "*" in children:
                children["*"]._reach(nodes)
        further = _Reached(nodes)
        # Clients choose the words: without a limit they could fill memory with keys that nothing is bound to.
        size = 1 + len(further.nodes) + len(further.values)
        if self._remembered + size <= REMEMBERED_MAX:
            self._remembered += size
            if named:
                reached.further[word] = further
            else:
                reached.unnamed = further
        return further

    def items(self, words_before: tuple[str, ...] = ()) -> Iterator[tuple[str, T]]:
        """Yield every binding key with each of its values."""
        for value in self.values:
            yield ".".join(words_before), value
        for word, child in self._children.items():
            yield from child.items((*words_before, word))

    def check(self) -> None:
        """Raise AssertionError unless every branch leads to a value, and those behind a `#` are marked."""
        for word, child in self._children.items():
            assert child.values or child._children, f"the branch '{word}' is empty"
            assert child._rest == (word == "#"), f"the branch '{word}' has the wrong mark of '#'"
            child.check()

    def _reach(self, reached: dict[TopicTrie[T], None]) -> None:
        """Add this node to those reached, and the `#` nodes behind it, which match no word as well."""
        node: TopicTrie[T] | None = self
        while node is not None and node not in reached:
            reached[node] = None
            node = node._children.get("#") if node._children else None


class _Reached(Generic[T]):
    """The branches that the first words of a routing key reach, and the values of a key that ends there."""

    __slots__ = ("further", "nodes", "unnamed", "values")

    def __init__(self, nodes: Iterable[TopicTrie[T]]) -> None:
        self.nodes = list(nodes)
        self.values = [value for node in self.nodes for value in node.values]
        self.further: dict[str, _Reached[T]] = {}
        """Cached branches by the next word, if a binding names that word."""
        self.unnamed: _Reached[T] | None = None
        """Cached branches for any other word."""
