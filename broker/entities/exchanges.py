"""Exchanges and what they match.

Each type is a small class with the same three verbs: `bind`, `unbind`, `match`. A type sees binding keys,
binding arguments and destinations only; names, flags and life cycle are the exchange's, who asks whom in what
order is `routing`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from broker.entities.topics import TopicTrie
from broker.wire.constants import ReplyCode
from broker.wire.errors import ChannelException
from broker.wire.tables import INTEGER_KINDS, TYPE_NAMES, Field, Table, encode_table

if TYPE_CHECKING:
    from broker.entities.queue import Queue

Destination: TypeAlias = "Queue | Exchange"


class Binding(NamedTuple):
    """A route from an exchange to a queue or to another exchange: unique by all four."""

    source: Exchange
    destination: Destination
    key: str
    arguments: bytes
    """The binding's arguments as an encoded field table."""


class Router(Protocol):
    """How one type of exchange matches."""

    by_headers: bool
    """Matching depends on the message, so that a result is good for this message only."""

    def bind(self, binding: Binding, arguments: Table) -> None:
        """Take in a binding. Raises ChannelException when the type cannot make sense of it."""

    def unbind(self, binding: Binding) -> None:
        """Forget a binding."""

    def match(self, key: str, headers: Table) -> Iterable[Destination]:
        """Where a message goes; a destination may come several times."""


class Direct:
    """Binding key equals routing key."""

    by_headers = False

    def __init__(self) -> None:
        self._bindings: dict[str, dict[Binding, None]] = {}

    def bind(self, binding: Binding, arguments: Table) -> None:
        self._bindings.setdefault(binding.key, {})[binding] = None

    def unbind(self, binding: Binding) -> None:
        bindings = self._bindings[binding.key]
        del bindings[binding]
        if not bindings:
            del self._bindings[binding.key]

    def match(self, key: str, headers: Table) -> Iterable[Destination]:
        return [binding.destination for binding in self._bindings.get(key, ())]


class Fanout:
    """Everything, to everybody."""

    by_headers = False

    def __init__(self) -> None:
        self._bindings: dict[Binding, None] = {}

    def bind(self, binding: Binding, arguments: Table) -> None:
        self._bindings[binding] = None

    def unbind(self, binding: Binding) -> None:
        del self._bindings[binding]

    def match(self, key: str, headers: Table) -> Iterable[Destination]:
        return [binding.destination for binding in self._bindings]


class Topic:
    """Words of the routing key against patterns."""

    by_headers = False

    def __init__(self) -> None:
        self._trie: TopicTrie[Binding] = TopicTrie()

    def bind(self, binding: Binding, arguments: Table) -> None:
        self._trie.add(binding.key, binding)

    def unbind(self, binding: Binding) -> None:
        self._trie.remove(binding.key, binding)

    def match(self, key: str, headers: Table) -> Iterable[Destination]:
        return [binding.destination for binding in self._trie.match(key)]


class Headers:
    """The message's headers against the binding's arguments.

    `x-match` says how: all of them or any of them, and whether arguments named x-... take part.
    """

    by_headers = True

    def __init__(self) -> None:
        self._criteria: dict[Binding, tuple[bool, Table]] = {}

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

    def match(self, key: str, headers: Table) -> Iterator[Destination]:
        for binding, (every, wanted) in self._criteria.items():
            hits = (_agrees(field, headers.get(name)) for name, field in wanted.items())
            if all(hits) if every else any(hits):
                yield binding.destination


_MATCH_MODES = ("all", "any", "all-with-x", "any-with-x")
_NUMBERS = INTEGER_KINDS | {"f", "d", "T"}
_STRINGS = frozenset("Sx")


def _match_mode(arguments: Table) -> str:
    field = arguments.get("x-match")
    if field is None:
        return "all"
    if field.kind != "S":
        found = f"field type {TYPE_NAMES[field.kind]} (value {field.value}); expected longstr"
        raise ChannelException(ReplyCode.PRECONDITION_FAILED, f"Invalid x-match {found}")
    mode = bytes(field.value).decode("utf-8", "replace")
    if mode not in _MATCH_MODES:
        found = f'field value <<"{mode}">>; expected all, any, all-with-x, or any-with-x'
        raise ChannelException(ReplyCode.PRECONDITION_FAILED, f"Invalid x-match {found}")
    return mode


def _agrees(wanted: Field, found: Field | None) -> bool:
    """A void asks only that the header is there. Numbers compare by value and strings by bytes, others by type too."""
    if found is None:
        return False
    if wanted.kind == "V":
        return True
    kinds = {wanted.kind, found.kind}
    return (len(kinds) == 1 or kinds <= _NUMBERS or kinds <= _STRINGS) and wanted.value == found.value


ROUTERS: dict[str, type[Direct | Fanout | Topic | Headers]] = {
    "direct": Direct,
    "fanout": Fanout,
    "topic": Topic,
    "headers": Headers,
}


class Exchange:
    """A named place to publish to.

    `bindings` are those it is the source of, `inbound` those from other exchanges that lead here.
    `version` changes whenever what it matches may have changed.
    """

    __slots__ = (
        "alternate",
        "arguments",
        "auto_delete",
        "bindings",
        "durable",
        "inbound",
        "internal",
        "name",
        "router",
        "type",
        "version",
    )

    def __init__(
        self, name: str, type_: str, *, durable: bool, auto_delete: bool, internal: bool, arguments: Table
    ) -> None:
        self.name = name
        self.type = type_
        self.durable = durable
        self.auto_delete = auto_delete
        self.internal = internal
        self.arguments = arguments
        alternate = arguments.get("alternate-exchange")
        name_of_alternate = b"" if alternate is None else bytes(alternate.value)
        self.alternate = name_of_alternate.decode("utf-8", "surrogateescape") or None
        self.router: Router = ROUTERS[type_]()
        self.bindings: dict[Binding, None] = {}
        self.inbound: dict[Binding, None] = {}
        self.version = 0

    def binding(self, destination: Destination, key: str, arguments: Table) -> Binding:
        """What a binding from here to there is known by; the order of its arguments is not part of it."""
        return Binding(self, destination, key, encode_table(dict(sorted(arguments.items()))))

    def bind(self, binding: Binding, arguments: Table) -> None:
        """Add a binding. Raises ChannelException when the exchange's type refuses its arguments."""
        self.router.bind(binding, arguments)
        self.bindings[binding] = None
        binding.destination.inbound[binding] = None
        self.version += 1

    def unbind(self, binding: Binding) -> None:
        """Remove a binding that is there."""
        self.router.unbind(binding)
        del self.bindings[binding]
        del binding.destination.inbound[binding]
        self.version += 1
