"""JSON values as Erlang terms, and the settings of a broker as RabbitMQ shows its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_ESCAPES = str.maketrans({'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\x1b": "\\e"})


def settings_text(settings: Mapping[str, Any]) -> str:
    """Settings by section, a line for each."""
    lines = [f"     {{{section},{term(values)}}}" for section, values in settings.items()]
    text = ",\n".join(lines)
    return f"[{{leveret,\n    [{text[5:]}]}}]"


def term(value: Any) -> str:
    """A JSON value as a term: objects are lists of pairs whose names are atoms, and lists and tuples are lists."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, Mapping):
        return f"[{','.join(f'{{{atom(name)},{term(item)}}}' for name, item in value.items())}]"
    if isinstance(value, list | tuple):
        return f"[{','.join(map(term, value))}]"
    return scalar(value, "undefined")


def scalar(value: Any, nothing: str) -> str:
    """A number or a boolean, or what stands for nothing."""
    if value is None:
        return nothing
    return str(value).lower() if isinstance(value, bool) else str(value)


def atom(name: str) -> str:
    """A name, in quotes where it would not be one without."""
    plain = name[:1].islower() and name.replace("_", "").replace("@", "").isalnum()
    return name if plain else f"'{name}'"


def quoted(text: str) -> str:
    """A text in quotes."""
    return f'"{text.translate(_ESCAPES)}"'
