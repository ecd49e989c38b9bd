"""Types x-consistent-hash and x-modulus-hash: messages spread over bindings by a hash of key, header or property.

RabbitMQ's plugins consistent_hash_exchange and sharding are the model, bit for bit: see `erlang_hash`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from broker.entities.arguments.erlang_terms import UNDEFINED, Term, printed, value
from broker.entities.arguments.erlang_terms import typed as typed_term
from broker.entities.exchanges.erlang_hash import jump, phash2
from broker.entities.exchanges.exchange import Binding, Destination, Router
from broker.entities.exchanges.exchange_types import OneBinding
from broker.entities.queues.queue import Queue
from broker.wire.amqp_errors import ConnectionException, precondition_failed
from broker.wire.constants import ReplyCode
from broker.wire.field_tables import Field, Fields, Table
from broker.wire.properties import decode_properties

if TYPE_CHECKING:
    from broker.entities.messages.message import Message

Subject = Callable[[Sequence[str], Fields, "Message | None"], Term]
"""Returns the term of a message that is hashed, given its routing keys, its headers and itself."""


class ConsistentHash(Router):
    """Type x-consistent-hash: one destination per value; the binding key is a destination's number of buckets.

    The ring is in order of binding. As in RabbitMQ, a destination is on it once, by its first binding, and leaves it
    when any of its bindings is removed. Weights are summed, so a large one costs nothing. A header is hashed with its
    type if `typed`.
    """

    def __init__(self, arguments: Table, *, typed: bool) -> None:
        header, property_ = (_text(arguments.get(name)) for name in ("hash-header", "hash-property"))
        if header is not None and property_ is not None:
            raise precondition_failed("hash-header and hash-property are mutually exclusive")
        if property_ is not None and property_ not in _PROPERTIES:
            raise precondition_failed(f"Unsupported property: {property_}")
        self.by_key_alone = header is None and property_ is None
        self._subject = _subject(header, property_, typed=typed)
        self._weights: dict[Destination, int] = {}
        self._destinations: list[Destination] = []
        self._ends: list[int] = []

    def check_binding(self, key: str, arguments: Table, destination: str) -> None:
        if not re.fullmatch(r"[+-]?[0-9]+", key):
            found = printed(key.encode("utf-8", "surrogateescape"))
            raise precondition_failed(f"The binding key must be an integer: {found}")
        if int(key) < 1:
            raise precondition_failed("The binding key must be greater than 0")

    def bind(self, binding: Binding, arguments: Table) -> None:
        self._weights.setdefault(binding.destination, int(binding.key))
        self._destinations = []

    def unbind(self, binding: Binding) -> None:
        # Off the ring even if other bindings of it are left: see the class.
        self._weights.pop(binding.destination, None)
        self._destinations = []

    def match(self, keys: Sequence[str], headers: Fields, message: Message | None) -> Sequence[Destination]:
        if len(self._weights) < 2:
            return tuple(self._weights)
        if not self._destinations:  # computed when needed, not for each of a thousand bindings that are added
            self._destinations, self._ends = list(self._weights), list(accumulate(self._weights.values()))
        bucket = jump(_key(self._subject(keys, headers, message)), self._ends[-1])
        return (self._destinations[bisect_right(self._ends, bucket)],)

    def check(self, bindings: Collection[Binding]) -> None:
        destinations = {binding.destination for binding in bindings}
        assert self._weights.keys() <= destinations, "a destination is on the ring without a binding"
        assert not self._destinations or self._destinations == list(self._weights), (
            "the destinations are not those of the ring"
        )


class ModulusHash(OneBinding):
    """Type x-modulus-hash: the binding number `hash(routing keys) % number of bindings`.

    They are sorted by the name of their destination if `by_name`, otherwise by binding key first.
    """

    def __init__(self, *, by_name: bool) -> None:
        super().__init__()
        self._place = _named_place if by_name else _place

    def order(self, bindings: Iterable[Binding]) -> Iterable[Binding]:
        return sorted(bindings, key=self._place)

    def match(self, keys: Sequence[str], headers: Fields, message: Message | None) -> Sequence[Destination]:
        destinations = self.destinations
        return (destinations[phash2([_bytes(key) for key in keys]) % len(destinations)],) if destinations else ()


_PROPERTIES = ("correlation_id", "message_id", "timestamp")


def _subject(header: str | None, property_: str | None, *, typed: bool) -> Subject:
    if header is not None:
        term = typed_term if typed else _header_term
        return lambda keys, headers, message: UNDEFINED if (field := headers.get(header)) is None else term(field)
    if property_ is not None:
        return lambda keys, headers, message: UNDEFINED if message is None else _property(message, property_)
    return lambda keys, headers, message: _bytes(keys[0])


def _header_term(field: Field) -> Term:
    """Return the value of a header without its type, times in milliseconds; of a list or table its first item."""
    if field.kind == "T":
        return int(field.value) * 1000
    term = value(field)
    return term[0] if isinstance(term, list) and term else term


def _key(term: Term) -> int:
    """Return the number by which a bucket is drawn: integers are not hashed, as in RabbitMQ."""
    return term if isinstance(term, int) else phash2(term)


def _property(message: Message, name: str) -> Term:
    value = getattr(decode_properties(message.header), name)
    return UNDEFINED if value is None else _bytes(str(value))


def _place(binding: Binding) -> tuple[bytes, bool, bytes]:
    """Return the sort key of RabbitMQ's bindings: key, exchanges before queues, name."""
    return _bytes(binding.key), *_named_place(binding)


def _named_place(binding: Binding) -> tuple[bool, bytes]:
    destination = binding.destination
    return isinstance(destination, Queue), _bytes(destination.name)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _text(field: Field | None) -> str | None:
    """Return a name as text. Raises ConnectionException 541 if it is not a string, on which RabbitMQ crashes."""
    if field is None:
        return None
    if field.kind != "S":
        raise ConnectionException(ReplyCode.INTERNAL_ERROR, "hash-header and hash-property must be strings")
    return bytes(field.value).decode("utf-8", "surrogateescape")
