"""The trie behind topic exchanges.

A binding key is a path of words. `*` stands for exactly one word and `#` for any number of them, none
included. The empty routing key has no words at all, so `#` and the empty key match it and `*` does not, while
"a..b" has an empty word in the middle that `*` does match: RabbitMQ reads keys so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")

WILDCARDS = ("*", "#")


def words(key: str) -> list[str]:
    """The words of a routing or binding key."""
    return key.split(".") if key else []


class TopicTrie(Generic[T]):
    """Values under binding keys, found by routing key."""

    __slots__ = ("_children", "_rest", "values")

    def __init__(self, *, rest: bool = False) -> None:
        self._children: dict[str, TopicTrie[T]] = {}
        self._rest = rest
        self.values: dict[T, None] = {}

    def add(self, key: str, value: T) -> None:
        """Put a value under a binding key."""
        node = self
        for word in words(key):
            child = node._children.get(word)
            if child is None:
                child = node._children[word] = TopicTrie(rest=word == "#")
            node = child
        node.values[value] = None

    def remove(self, key: str, value: T) -> None:
        """Take a value away, and the branches that nothing is left on."""
        path, node = [], self
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
        found: list[T] = []
        reached: dict[TopicTrie[T], None] = {}
        self._reach(reached)
        for word in words(key):
            further: dict[TopicTrie[T], None] = {}
            for node in reached:
                if node._rest:  # "#" takes this word too
                    node._reach(further)
                children = node._children
                if word in children and word not in WILDCARDS:  # in a routing key they are words like any other
                    children[word]._reach(further)
                if "*" in children:
                    children["*"]._reach(further)
            if not further:
                return found
            reached = further
        for node in reached:
            found += node.values
        return found

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
