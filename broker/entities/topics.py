"""The trie behind topic exchanges.

A binding key is a path of words. `*` stands for exactly one word and `#` for any number of them, none
included. The empty routing key has no words at all, so `#` and the empty key match it and `*` does not, while
"a..b" has an empty word in the middle that `*` does match: RabbitMQ reads keys so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


def words(key: str) -> list[str]:
    """The words of a routing or binding key."""
    return key.split(".") if key else []


class TopicTrie(Generic[T]):
    """Values under binding keys, found by routing key."""

    __slots__ = ("_children", "values")

    def __init__(self) -> None:
        self._children: dict[str, TopicTrie[T]] = {}
        self.values: dict[T, None] = {}

    def add(self, key: str, value: T) -> None:
        """Put a value under a binding key."""
        node = self
        for word in words(key):
            node = node._children.setdefault(word, TopicTrie())
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

    def match(self, key: str) -> Iterator[T]:
        """Every value whose binding key matches a routing key. One may come several times."""
        path = words(key)
        pending: list[tuple[TopicTrie[T], int]] = [(self, 0)]
        seen: set[tuple[int, int]] = set()
        while pending:
            node, depth = pending.pop()
            if (id(node), depth) in seen:  # "#.#" reaches the same place in more than one way
                continue
            seen.add((id(node), depth))
            if depth == len(path):
                yield from node.values
            pending.extend(node._steps(path, depth))

    def _steps(self, path: list[str], depth: int) -> Iterator[tuple[TopicTrie[T], int]]:
        children = self._children
        if depth < len(path):
            for word in (path[depth], "*"):
                if word in children:
                    yield children[word], depth + 1
        if "#" in children:
            for end in range(depth, len(path) + 1):
                yield children["#"], end
