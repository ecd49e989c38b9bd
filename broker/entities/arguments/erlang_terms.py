"""Values of field tables as the Erlang terms that RabbitMQ makes of them.

Some of what RabbitMQ shows or computes depends on them: reply texts print terms, and the exchanges that hash a
header hash the term it was decoded to, type included.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from broker.wire.field_tables import TYPE_NAMES, Field, Table
from broker.wire.frames import render_octets


class Atom:
    """A name that stands for itself."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


Term: TypeAlias = "Atom | bytes | int | float | tuple[Term, ...] | list[Term]"

UNDEFINED = Atom("undefined")
_BOOLEANS = {True: Atom("true"), False: Atom("false")}
_TYPES = {kind: Atom(name) for kind, name in TYPE_NAMES.items()}
_PLAIN = re.compile("[a-z][a-zA-Z0-9_@]*")
"""Atoms that need no quotes. Ours hold nothing that would have to be escaped within them."""


def typed(field: Field) -> Term:
    """A value with the name of its type, as it stands in a header table."""
    return (_TYPES[field.kind], value(field))


def value(field: Field) -> Term:
    """A value without its type."""
    found = field.value
    match field.kind:
        case "t":
            return _BOOLEANS[found]
        case "V":
            return UNDEFINED
        case "A":
            return [typed(item) for item in found]
        case "F":
            return entries(found)
        case "D" | "S" | "x":
            return tuple(found) if field.kind == "D" else bytes(found)
        case "f" | "d":
            return float(found)
        case _:
            return int(found)


def entries(table: Table) -> Term:
    """A table: each name with its value and the value's type."""
    found: list[Term] = []
    for name, field in table.items():
        found.append((name.encode("utf-8", "surrogateescape"), _TYPES[field.kind], value(field)))
    return found


def printed(term: Term) -> str:
    """A term as Erlang's `~p` writes it, on one line."""
    if isinstance(term, Atom):
        return term.name if _PLAIN.fullmatch(term.name) else f"'{term.name}'"
    if isinstance(term, bytes):
        return render_octets(term)
    if isinstance(term, tuple):
        return f"{{{','.join(map(printed, term))}}}"
    if isinstance(term, list):
        return f"[{','.join(map(printed, term))}]"
    if isinstance(term, float):
        return _printed_float(term)
    return str(term)


def _printed_float(number: float) -> str:
    mantissa, _, exponent = repr(number).partition("e")
    if not exponent:
        return mantissa
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}e{int(exponent)}"
