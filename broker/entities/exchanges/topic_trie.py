"""The trie behind topic exchanges.

A binding key is a path of words. `*` stands for exactly one word and `#` for any number of them, none
included. The empty routing key has no words at all, so `#` and the empty key match it and `*` does not, while
"a..b" has an empty word in the middle that `*` does match: RabbitMQ reads keys so.

Several branches may be reached at once. Where the first words of a key lead is remembered, so that the next key takes
one look-up for each of its words; what no binding names is as good as any other such word.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")

WILDCARDS = ("*", "#")
REMEMBERED_MAX = 32_768
"""So much of where the words of keys led is remembered until a binding comes or goes: branches, and values on them."""


def words(key: str) -> list[str]:
    """The words of a routing or binding key."""
    return key.split(".") if key else []


class TopicTrie(Generic[T]):
    """Values under binding keys, found by routing key."""

    __slots__ = ("_children", "_remembered", "_rest", "_start", "values")

    def __init__(self, *, rest: bool = False) -> None:
        self._children: dict[str, TopicTrie[T]] = {}
        self._rest = rest
        self._start: _Reached[T] | None = None
        """Of the whole trie: what is reached before the first word."""
        self._remembered = 0
        self.values: dict[T, None] = {}

    def add(self, key: str, value: T) -> None:
        """Put a value under a binding key."""
        node, self._start = self, None
        for word in words(key):
            child = node._children.get(word)
            if child is None:
                child = node._children[word] = TopicTrie(rest=word == "#")
            node = child
        node.values[value] = None

    def remove(self, key: str, value: T) -> None:
        """Take a value away, and the branches that nothing is left on."""
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
        """Every value whose binding key matches a routing key. One may come several times."""
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
        """Where a word leads that did not follow yet, or that no binding names here: in a routing key, wildcards are
        words like any other."""
        named = word not in WILDCARDS and any(word in node._children for node in reached.nodes)
        if not named and reached.unnamed is not None:
            return reached.unnamed
        nodes: dict[TopicTrie[T], None] = {}
        for node in reached.nodes:
            if node._rest:  # "#" takes this word too
                node._reach(nodes)
            children = node._children
            if named and word in children:
                children[word]._reach(nodes)
            if "*" in children:
                children["*"]._reach(nodes)
        further = _Reached(nodes)
        size = 1 + len(further.nodes) + len(further.values)
        if self._remembered + size <= REMEMBERED_MAX:
            self._remembered += size
            if named:
                reached.further[word] = further
            else:
                reached.unnamed = further
        return further

    def items(self, words_before: tuple[str, ...] = ()) -> Iterator[tuple[str, T]]:
        """Every binding key with each of its values."""
        for value in self.values:
            yield ".".join(words_before), value
        for word, child in self._children.items():
            yield from child.items((*words_before, word))

    def check(self) -> None:
        """Raise AssertionError unless every branch leads to a value, and those behind a `#` know it."""
        for word, child in self._children.items():
            assert child.values or child._children, f"nothing is left on the branch '{word}'"
            assert child._rest == (word == "#"), f"the branch '{word}' is taken for another"
            child.check()

    def _reach(self, reached: dict[TopicTrie[T], None]) -> None:
        """Note that the words so far lead here, and past any `#` behind it."""
        node: TopicTrie[T] | None = self
        while node is not None and node not in reached:
            reached[node] = None
            node = node._children.get("#") if node._children else None


class _Reached(Generic[T]):
    """Where the first words of routing keys lead: the branches, and the values of a key that has no more words."""

    __slots__ = ("further", "nodes", "unnamed", "values")

    def __init__(self, nodes: Iterable[TopicTrie[T]]) -> None:
        self.nodes = list(nodes)
        self.values = [value for node in self.nodes for value in node.values]
        self.further: dict[str, _Reached[T]] = {}
        """By the next word, if a binding names it."""
        self.unnamed: _Reached[T] | None = None
        """By any other word."""
