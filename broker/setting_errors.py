"""Error messages for invalid settings, in terms of the settings file."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from broker.credentials import SECRETS, without_credentials

# msgspec's messages name a path such as `$.limits.channel_max`. Ours name the TOML key, the value that was written and
# the expected one; so its message is used to find the place only.


def explain(message: str, tree: dict[str, Any], settings: type) -> str:
    """Return a message about `tree`, read as `settings`: the key, what was expected, what was found."""
    keys = place_of(message)
    unknown = re.search(r"unknown field `([^`]*)`", message)
    if unknown:
        name = unknown.group(1)
        return f"{'.'.join([*keys, name])}: there is no such setting{_suggest(keys, name, settings)}"
    value: Any = tree
    for key in keys:
        value = value[int(key)] if isinstance(value, list) else value[key]
    shown = "something else" if keys[-1:] and keys[-1] in SECRETS else _shown(value)
    return f"{'.'.join(keys)}: expected {expected(keys, settings)}, got {shown}"


def place_of(message: str) -> list[str]:
    """Return the keys of the path in a message of msgspec."""
    place = re.search(r" - at `\$\.?([^`]*)`$", message)
    return re.findall(r"[^.\[\]]+", place.group(1)) if place else []


def _shown(value: object) -> str:
    return msgspec.json.encode(without_credentials(value), enc_hook=str).decode()


def _suggest(section: list[str], name: str, settings: type) -> str:
    import difflib

    known = getattr(settings(), section[0]) if section else settings()
    close = difflib.get_close_matches(name, known.__struct_fields__, n=1)
    return f"; did you mean {close[0]}?" if close else f" (known: {', '.join(known.__struct_fields__)})"


def expected(keys: list[str], settings: type) -> str:
    """Return a description of the valid values at a place."""
    import msgspec.inspect as inspect

    kind: Any = inspect.type_info(settings)
    for key in keys:
        if isinstance(kind, inspect.VarTupleType):
            kind = kind.item_type
        else:
            kind = next(field.type for field in kind.fields if field.name == key)
    return _described(kind)


def _described(kind: Any) -> str:
    """Return a description of the values of a msgspec type."""
    name = type(kind).__name__
    if name == "Metadata":
        return str(kind.extra_json_schema["description"])
    if name == "LiteralType":
        return " or ".join(f'"{value}"' for value in kind.values)
    if name in ("IntType", "FloatType"):
        return ("int" if name == "IntType" else "number") + _range(kind)
    if name == "BoolType":
        return "true or false"
    if name == "StrType":
        return "text" + (" that is not empty" if kind.min_length else "")
    return "a list of texts" if name == "VarTupleType" else "a section"


def _range(kind: Any) -> str:
    low = kind.gt if kind.ge is None else kind.ge
    if low is None:
        return ""
    above = "above" if kind.ge is None else "from"
    if kind.le is None:
        return f" {above} {low:g} up" if above == "from" else f" above {low:g}"
    return f" between {low} and {kind.le}" if above == "from" else f" above {low:g}, at most {kind.le:g}"
