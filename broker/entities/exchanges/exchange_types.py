"""The exchange types of AMQP: direct, fanout, topic, headers; and the base of those that choose one binding.

A type sees binding keys, binding arguments and destinations only. Types that RabbitMQ has in plugins are in files of
their own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from broker.entities.exchanges.exchange import Binding, Destination, Router
from broker.entities.exchanges.topic_trie import TopicTrie
from broker.wire.amqp_errors import precondition_failed
from broker.wire.field_tables import INTEGER_KINDS, TYPE_NAMES, Field, Fields, Table

if TYPE_CHECKING:
    from broker.entities.messages.message import Message


class Direct(Router):
    """Type direct: the binding key equals the routing key."""

    def __init__(self) -> None:
        self._bindings: dict[str, dict[Binding, None]] = {}

    def bind(self, binding: Binding, arguments: Table) -> None:
        self._bindings.setdefault(binding.key, {})[binding] = None

    def unbind(self, binding: Binding) -> None:
        bindings = self._bindings[binding.key]
        del bindings[binding]
        if not bindings:
            del self._bindings[binding.key]

    def match(self, keys: Sequence[str], headers: Fields, message: Message | None) -> Sequence[Destination]:
        return [binding.destination for key in keys for binding in self._bindings.get(key, ())]

    def check(self, bindings: Collection[Binding]) -> None:
        matched = [binding for of_key in self._bindings.values() for binding in of_key]
        assert_same(matched, bindings)
        for key, of_key in self._bindings.items():
            assert of_key, f"no binding is left under the key '{key}'"
            assert all(binding.key == key for binding in of_key), f"another binding is under the key '{key}'"


class Fanout(Router):
    """Type fanout: every message, to every binding."""

    def __init__(self) -> None:
        self._bindings: dict[Binding, None] = {}

    def bind(self, binding: Binding, arguments: Table) -> None:
        self._bindings[binding] = None

    def unbind(self, binding: Binding) -> None:
        del self._bindings[binding]

    def match(self, keys: Sequence[str], headers: Fields, message: Message | None) -> Sequence[Destination]:
        return [binding.destination for binding in self._bindings]

    def check(self, bindings: Collection[Binding]) -> None:
        assert_same(self._bindings, bindings)


class OneBinding(Router):
    """Base of types that route each message to one of their bindings: the destinations in an order."""

    def __init__(self) -> None:
        self._bindings: dict[Binding, None] = {}
        self._destinations: list[Destination] = []

    def bind(self, binding: Binding, arguments: Table) -> None:
        self._bindings[binding] = None
        self._destinations = []

    def unbind(self, binding: Binding) -> None:
        del self._bindings[binding]
        self._destinations = []

    def order(self, bindings: Iterable[Binding]) -> Iterable[Binding]:
        """Return the bindings, given in order of binding, in the order of `destinations`."""
        return bindings

    @property
    def destinations(self) -> Sequence[Destination]:
        """The bindings' destinations; computed when needed, not for each of a thousand bindings that are added."""
        if not self._destinations:
            self._destinations = [binding.destination for binding in self.order(self._bindings)]
        return self._destinations

    def check(self, bindings: Collection[Binding]) -> None:
        assert_same(self._bindings, bindings)
        destinations = [binding.destination for binding in self.order(self._bindings)]
        assert not self._destinations or self._destinations == destinations, (
            "the destinations are not those of the bindings"
        )


class Topic(Router):
    """Type topic: the words of the routing key against binding patterns."""

    def __init__(self) -> None:
        self._trie: TopicTrie[Binding] = TopicTrie()

    def bind(self, binding: Binding, arguments: Table) -> None:
        self._trie.add(binding.key, binding)

    def unbind(self, binding: Binding) -> None:
        self._trie.remove(binding.key, binding)

    def match(self, keys: Sequence[str], headers: Fields, message: Message | None) -> Sequence[Destination]:
        return [binding.destination for key in keys for binding in self._trie.match(key)]

    def check(self, bindings: Collection[Binding]) -> None:
        self._trie.check()
        matched = list(self._trie.items())
        assert_same([binding for _, binding in matched], bindings)
        for key, binding in matched:
            assert binding.key == key, f"the binding of the key '{binding.key}' is under '{key}'"


class Headers(Router):
    """Type headers: the message's headers against the binding's arguments.

    `x-match` is all or any, with the suffix -with-x if arguments named x-... are compared too. `exact`: an integer does
    not match a floating-point number, as in RabbitMQ from 3.13 on.
    """

    by_key_alone = False

    def __init__(self, *, exact: bool) -> None:
        self._kinds_alike = (_INTEGERS, _FLOATS, _STRINGS) if exact else (_INTEGERS | _FLOATS, _STRINGS)
        self._criteria: dict[Binding, tuple[bool, Table]] = {}

    def check_binding(self, key: str, arguments: Table, destination: str) -> None:
        _match_mode(arguments)

    def bind(self, binding: Binding, arguments: Table) -> None:
        match = _match_mode(arguments)
        wanted = {
            name: field
            for name, field in arguments.items()
            if name != "x-match" and (match.endswith("-with-x") or not name.startswith("x-"))
        }
        self._criteria[binding] = match.startswith("all"), wanted

    def unbind(self, binding: Binding) -> None:
        del self._criteria[binding]

    def match(self, keys: Sequence[str], headers: Fields, message: Message | None) -> Sequence[Destination]:
        return [
            binding.destination
            for binding, (every, wanted) in self._criteria.items()
            if self._fits(headers, wanted, every=every)
        ]

    def check(self, bindings: Collection[Binding]) -> None:
        assert_same(self._criteria, bindings)

    def _fits(self, headers: Fields, wanted: Table, *, every: bool) -> bool:
        for name, field in wanted.items():
            if self._agrees(field, headers.get(name)) is not every:
                return not every
        return every

    def _agrees(self, wanted: Field, found: Field | None) -> bool:
        """Compare numbers by value, strings by bytes, others by type and value. A void matches any present header."""
        if found is None:
            return False
        if wanted.kind == "V":
            return True
        alike = wanted.kind == found.kind or any(
            wanted.kind in each and found.kind in each for each in self._kinds_alike
        )
        return alike and wanted.value == found.value


def assert_same(matched: Collection[Binding], bindings: Collection[Binding]) -> None:
    """Raise AssertionError unless a router has exactly these bindings, each once."""
    assert len(matched) == len(bindings), f"{len(matched)} bindings are matched, the exchange has {len(bindings)}"
    assert set(matched) == set(bindings), "other bindings are matched than the exchange has"


_MATCH_MODES = ("all", "any", "all-with-x", "any-with-x")
_INTEGERS, _FLOATS = INTEGER_KINDS | {"T"}, frozenset("fd")
_STRINGS = frozenset("Sx")


def _match_mode(arguments: Table) -> str:
    field = arguments.get("x-match")
    if field is None:
        return "all"
    if field.kind != "S":
        found = f"field type {TYPE_NAMES[field.kind]} (value {field.value}); expected longstr"
        raise precondition_failed(f"Invalid x-match {found}")
    mode = bytes(field.value).decode("utf-8", "replace")
    if mode not in _MATCH_MODES:
        found = f'field value <<"{mode}">>; expected all, any, all-with-x, or any-with-x'
        raise precondition_failed(f"Invalid x-match {found}")
    return mode
