"""Field table values as the Erlang terms to which RabbitMQ decodes them.

RabbitMQ's reply texts print terms, and hash exchanges hash a header's term, type included.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from broker.wire.field_tables import TYPE_NAMES, Field, Table
from broker.wire.frames import render_octets


class Atom:
    """An Erlang atom."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


Term: TypeAlias = "Atom | bytes | int | float | tuple[Term, ...] | list[Term]"

UNDEFINED = Atom("undefined")
_BOOLEANS = {True: Atom("true"), False: Atom("false")}
_TYPES = {kind: Atom(name) for kind, name in TYPE_NAMES.items()}
_PLAIN = re.compile("[a-z][a-zA-Z0-9_@]*")
"""Atoms that need no quotes. None of ours has a character that would have to be escaped."""


def typed(field: Field) -> Term:
    """Return a value with the name of its type, as in a header table."""
    return (_TYPES[field.kind], value(field))


def value(field: Field) -> Term:
    """Return a value without its type."""
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
    """Return a table as a list of (name, type, value)."""
    found: list[Term] = []
    for name, field in table.items():
        found.append((name.encode("utf-8", "surrogateescape"), _TYPES[field.kind], value(field)))
    return found


def printed(term: Term) -> str:
    """Return a term as Erlang's `~p` prints it, on one line."""
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
