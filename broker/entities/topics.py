"""The trie behind topic exchanges.

A binding key is a path of words. `*` stands for exactly one word and `#` for any number of them, none
included. The empty routing key has no words at all, so `#` and the empty key match it and `*` does not, while
"a..b" has an empty word in the middle that `*` does match: RabbitMQ reads keys so.
"""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")

WILDCARDS = ("*", "#")


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

    def match(self, key: str) -> list[T]:
        """Every value whose binding key matches a routing key. One may come several times."""
        path = words(key)
        end = len(path)
        found: list[T] = []
        pending: list[tuple[TopicTrie[T], int]] = [(self, 0)]
        seen: set[tuple[int, int]] = set()
        while pending:
            node, depth = pending.pop()
            if depth == end:
                found += node.values
            children = node._children
            if children and depth < end:
                word = path[depth]
                if word in children and word not in WILDCARDS:  # in a routing key they are words like any other
                    pending.append((children[word], depth + 1))
                if "*" in children:
                    pending.append((children["*"], depth + 1))
            if "#" in children:
                rest = children["#"]
                for place in range(depth, end + 1) if rest._children else (end,):
                    if (id(rest), place) not in seen:  # "#.#" reaches the same place in more than one way
                        seen.add((id(rest), place))
                        pending.append((rest, place))
        return found
