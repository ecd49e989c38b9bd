"""JSON values as Erlang terms: of settings and reports, and of what a validation refuses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_ESCAPES = str.maketrans({'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\x1b": "\\e"})


def settings_text(settings: Mapping[str, Any]) -> str:
    """Return settings by section as RabbitMQ prints its own, a line for each section."""
    lines = [f"     {{{section},{term(values)}}}" for section, values in settings.items()]
    text = ",\n".join(lines)
    return f"[{{leveret,\n    [{text[5:]}]}}]"


def term(value: Any) -> str:
    """Return a JSON value as a term: objects are lists of pairs whose names are atoms, lists and tuples are lists."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, Mapping):
        return f"[{','.join(f'{{{atom(name)},{term(item)}}}' for name, item in value.items())}]"
    if isinstance(value, list | tuple):
        return f"[{','.join(map(term, value))}]"
    return scalar(value, "undefined")


def scalar(value: Any, nothing: str) -> str:
    """Return a number or a boolean; `nothing` for None."""
    if value is None:
        return nothing
    return str(value).lower() if isinstance(value, bool) else str(value)


def atom(name: str) -> str:
    """Return an atom, in quotes where it needs them."""
    plain = name[:1].islower() and name.replace("_", "").replace("@", "").isalnum()
    return name if plain else f"'{name}'"


def quoted(text: str) -> str:
    """Return a text in quotes."""
    return f'"{text.translate(_ESCAPES)}"'


def binary_term(value: Any) -> str:
    """Return a JSON value as reply texts of a validation show it: <<"a text">>, true, [1,2], #{<<"name">> => 1}."""
    if isinstance(value, str):
        return f'<<"{value}">>'
    if isinstance(value, Mapping):
        return f"#{{{','.join(f'{binary_term(name)} => {binary_term(item)}' for name, item in value.items())}}}"
    if isinstance(value, list):
        return f"[{','.join(map(binary_term, value))}]"
    return scalar(value, "null")


def binary_pairs(values: Mapping[str, Any]) -> str:
    """Return an object as a list of pairs, in the same notation."""
    return f"[{','.join(f'{{{binary_term(name)},{binary_term(value)}}}' for name, value in values.items())}]"
