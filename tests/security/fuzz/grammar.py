"""Clients' input, mostly sound and rarely sensible: names, numbers, tables, properties, methods."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from broker.session.input.dispatch import HANDLERS
from broker.wire import methods
from broker.wire.field_tables import TYPE_NAMES, Field, Table
from broker.wire.method import Method
from broker.wire.properties import BasicProperties
from tests.security.fuzz.choices import Choices, once_in, pick

_USUAL = ("q", "r", "classic", "priority", "quorum", "stream", "expiring", "short")
QUEUES = (*_USUAL, *_USUAL, "", "exclusive", "amq.rabbitmq.reply-to")
_STANDARD = ("amq.direct", "amq.fanout", "amq.topic", "amq.headers", "amq.rabbitmq.trace")
EXCHANGES = (*(3 * ("",)), *(2 * ("x", "y")), *_STANDARD, "delayed", "hash", "recent")
_PLUGINS = ("x-consistent-hash", "x-modulus-hash", "x-random", "x-recent-history", "x-delayed-message")
TYPES = ("direct", "fanout", "topic", "headers", *_PLUGINS, "x-unknown", "")
KEYS = ("q", "r", "classic", "priority", "quorum", "stream", "a.b.c", "#", "*.#", "#.#.*", "", "1", "20", "-1", ".")
ODD_NAMES = ("é", "\udcff\udc80", "a" * 255, "a\r\nb", "amq.", "\x00", "a b", "ﬀ" * 85, "%s{}\\", "😀")

NUMBERS = (0, 1, 2, 3, 10, 127, 128, 255, 256, 1000, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53)
LARGE_NUMBERS = (*NUMBERS, 2**63 - 1, 2**63, 2**64 - 1)

BITS = {
    "delivery_tag": 64,
    "prefetch_size": 32,
    "frame_max": 32,
    "message_count": 32,
    "consumer_count": 32,
    "version_major": 8,
    "version_minor": 8,
}
"""Bits of the numbers in methods; 16 for those not listed."""


def integer(choices: Choices, bits: int) -> int:
    """An unsigned number of `bits` bits: a small one, one at a border, or any."""
    kind = choices.number(0, 3)
    if kind < 2:
        return choices.number(0, 5)
    if kind == 2:
        return pick(choices, LARGE_NUMBERS) % (1 << bits)
    return choices.number(0, (1 << bits) - 1)


def name(choices: Choices, known: tuple[str, ...]) -> str:
    """A short string: one that means something, as a rule."""
    kind = choices.number(0, 31)
    if kind < 30:
        return pick(choices, known)
    if kind == 30:
        return pick(choices, ODD_NAMES)
    return choices.data(12).decode("utf-8", "surrogateescape")


# Field tables

_SIGNED = {"b": 8, "s": 16, "I": 32, "l": 64, "L": 64}
_UNSIGNED = {"B": 8, "u": 16, "i": 32, "T": 64}
_FLOATS = (0.0, -0.0, 1.5, float("inf"), float("-inf"), float("nan"), 1e300, 5e-324, -1e9)
_TEXTS = (b"", b"q", b"x", b"amq.fanout", b"drop-head", b"\xff\xfe", b"1000", b"-1", b"all", b"any", b"12h", b"a" * 300)
_KINDS = "".join(TYPE_NAMES)


def field(choices: Choices, depth: int = 0) -> Field:
    """A value of any type."""
    kind = pick(choices, "SItVA" + _KINDS)
    if kind in _SIGNED:
        bits = _SIGNED[kind]
        return Field(kind, (integer(choices, bits) + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1))
    if kind in _UNSIGNED:
        return Field(kind, integer(choices, _UNSIGNED[kind]))
    if kind in "fd":
        value = pick(choices, _FLOATS)
        return Field(kind, value if kind == "d" or abs(value) < 1e38 or value in (float("inf"), -float("inf")) else 1.0)
    if kind in "Sx":
        return Field(kind, pick(choices, _TEXTS) if choices.number(0, 2) else choices.data(40))
    if kind == "A":
        return Field("A", [field(choices, depth + 1) for _ in range(choices.number(0, 3))] if depth < 4 else [])
    if kind == "F":
        return Field("F", any_table(choices, depth + 1) if depth < 4 else {})
    return Field(kind, {"t": bool, "D": lambda bit: (bit, bit), "V": lambda bit: None}[kind](choices.number(0, 1)))


def any_table(choices: Choices, depth: int = 0) -> Table:
    """A table of anything."""
    return {name(choices, ("a", "b", "x-match", "")): field(choices, depth) for _ in range(choices.number(0, 3))}


def _text(*texts: bytes) -> Callable[[Choices], Field]:
    return lambda choices: Field("S", pick(choices, texts))


def _number(kind: str = "Ilsb") -> Callable[[Choices], Field]:
    return lambda choices: Field(pick(choices, kind), choices.number(0, 20))


def _large(choices: Choices) -> Field:
    return Field("l", pick(choices, LARGE_NUMBERS) - (1 << 63) if once_in(choices, 4) else 1000)


def _flag(choices: Choices) -> Field:
    return Field("t", bool(choices.number(0, 1)))


def _keys(choices: Choices) -> Field:
    texts = [name(choices, KEYS).encode("utf-8", "surrogateescape") for _ in range(choices.number(0, 3))]
    return Field("A", [Field("S", text) for text in texts])


_Sketch = dict[str, Callable[[Choices], Field]]

ARGUMENTS: _Sketch = {
    "x-queue-type": _text(b"classic", b"quorum", b"stream", b"unknown"),
    "x-max-priority": _number(),
    "x-message-ttl": _number(),
    "x-expires": _number(),
    "x-dead-letter-exchange": _text(b"", b"x", b"amq.fanout", b"amq.direct"),
    "x-dead-letter-routing-key": _text(b"q", b"r", b"a.b", b""),
    "x-max-length": _number(),
    "x-max-length-bytes": _number(),
    "x-overflow": _text(b"drop-head", b"reject-publish", b"reject-publish-dlx", b"?"),
    "x-single-active-consumer": _flag,
    "x-consumer-timeout": _number(),
    "x-delivery-limit": _number(),
    "x-dead-letter-strategy": _text(b"at-least-once", b"at-most-once"),
    "x-queue-mode": _text(b"lazy", b"default"),
    "x-queue-version": _number(),
    "x-queue-leader-locator": _text(b"client-local", b"balanced"),
    "x-quorum-initial-group-size": _number(),
    "x-max-in-memory-length": _number(),
    "x-max-age": _text(b"1h", b"1s", b"0s", b"1Y", b"9" * 40 + b"Y"),
    "x-stream-max-segment-size-bytes": _number(),
    "x-initial-cluster-size": _number(),
    "alternate-exchange": _text(b"x", b"y", b"amq.fanout", b"none"),
    "hash-header": _text(b"a", b"b"),
    "hash-property": _text(b"message_id", b"correlation_id", b"timestamp", b"?"),
    "x-recent-history-length": _number(),
    "x-delayed-type": _text(b"direct", b"topic", b"fanout", b"x-consistent-hash", b"x-delayed-message"),
    "x-match": _text(b"all", b"any", b"all-with-x", b"any-with-x", b"?"),
    "x-priority": _number(),
    "x-cancel-on-ha-failover": _flag,
    "x-stream-offset": _text(b"first", b"last", b"next", b"1h", b"?"),
    "x-stream-filter": _text(b"a", b"b"),
    "x-stream-match-unfiltered": _flag,
    "a": _text(b"1", b"2"),
}

HEADERS: _Sketch = {
    "CC": _keys,
    "BCC": _keys,
    "x-delay": _number(),
    "x-death": lambda choices: Field("A", [Field("F", any_table(choices)) for _ in range(choices.number(0, 2))]),
    "x-first-death-queue": _text(b"q"),
    "x-recent-history-no-store": _flag,
    "x-stream-filter-value": _text(b"a", b"b"),
    "x-delivery-count": _number(),
    "a": _text(b"1", b"2"),
    "b": _large,
}


def table(choices: Choices, sketch: _Sketch) -> Table:
    """A table of what means something, each value of its own type, as a rule; else of anything."""
    if once_in(choices, 12):
        return any_table(choices)
    made: Table = {}
    known = tuple(sketch)
    for _ in range(choices.number(0, 4)):
        key = pick(choices, known)
        made[key] = field(choices) if once_in(choices, 8) else sketch[key](choices)
    return made


def properties(choices: Choices) -> BasicProperties:
    """The properties of a message, half of them absent."""
    wanted = choices.number(0, 255)
    text = ("", "a", "b", "é" * 100)
    return BasicProperties(
        content_type=name(choices, text) if wanted & 1 else None,
        headers=table(choices, HEADERS) if wanted & 2 else None,
        delivery_mode=pick(choices, (1, *(30 * (2,)), 3)) if wanted & 4 else None,
        priority=choices.number(0, 255) if wanted & 8 else None,
        correlation_id=name(choices, text) if wanted & 16 else None,
        reply_to=name(choices, ("amq.rabbitmq.reply-to", *(9 * ("q",)))) if wanted & 32 else None,
        expiration=pick(choices, (*(8 * ("0", "1", "20", "+5")), "-1", "", "x", "9" * 30, "1 "))
        if wanted & 64
        else None,
        message_id=name(choices, text) if wanted & 16 else None,
        timestamp=integer(choices, 64) if wanted & 16 else None,
        user_id=name(choices, (*(15 * ("guest",)), "root")) if wanted & 192 == 192 else None,
    )


# Methods

_NAMES = {
    "queue": QUEUES,
    "exchange": EXCHANGES,
    "source": EXCHANGES,
    "destination": EXCHANGES,
    "routing_key": KEYS,
    "type": TYPES,
    "consumer_tag": ("t", "u", ""),
    "mechanism": ("PLAIN", "AMQPLAIN", "EXTERNAL", ""),
    "virtual_host": ("/", "none", ""),
}

_BREAKING = {"passive": 7, "no_wait": 6, "requeue": 1, "active": 1, "internal": 7, "exclusive": 7, "immediate": 8}
"""Times out of eight that a flag is not set, if one value of it makes the rest of the input pointless; else 4."""

_OFTEN = (
    *(4 * (methods.BasicGet, methods.BasicConsume)),
    methods.ChannelFlow,
    *(2 * (methods.QueueDeclare, methods.ExchangeDeclare, methods.QueueBind)),
    methods.TxSelect,
    methods.ConfirmSelect,
)
_BY_CLIENTS = (*(kind for kind in HANDLERS if not kind.NAME.startswith(("channel.", "access."))), *_OFTEN)
ALL_METHODS: tuple[type[Method], ...] = tuple(Method.__subclasses__())

_PARAMETERS = {
    kind: [(each.name, str(each.annotation)) for each in list(inspect.signature(kind.__init__).parameters.values())[1:]]
    if "__init__" in vars(kind)
    else []
    for kind in ALL_METHODS
}


def method(choices: Choices) -> Method:
    """A method for servers, now and then one of all."""
    kind = pick(choices, ALL_METHODS if once_in(choices, 64) else _BY_CLIENTS)
    return method_of(choices, kind)


def method_of(choices: Choices, kind: type[Method]) -> Method:
    """A method of this kind with any arguments."""
    return kind(*(_argument(choices, key, annotation) for key, annotation in _PARAMETERS[kind]))


def _argument(choices: Choices, key: str, annotation: str) -> Any:
    if annotation == "bool":
        return choices.number(0, 7) >= _BREAKING.get(key, 4)
    if annotation == "int":
        if key == "prefetch_size" and choices.number(0, 7):
            return 0
        return integer(choices, BITS.get(key, 16))
    if annotation == "Table":
        return {} if choices.number(0, 2) else table(choices, ARGUMENTS)
    if annotation == "bytes":
        return choices.data(40)
    return name(choices, _NAMES.get(key, ("", "a", "q")))
