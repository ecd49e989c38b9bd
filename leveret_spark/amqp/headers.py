"""Message headers as JSON text and back.

A column holds one JSON object, so that nothing is lost and `get_json_object`, `from_json` and `parse_json` can read it,
nested tables and `x-death` included. A value without a JSON type is an object with one key that begins with a dollar
sign, and a sink converts it back:

    {"$bytes": "<base64>"}  {"$timestamp": <seconds>}  {"$decimal": "12.50"}  {"$float": "NaN"}
"""

from __future__ import annotations

import base64
import json
import math
from calendar import timegm
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
"""Made once: `json.dumps` would make an encoder for each message."""


def headers_to_json(headers: Mapping[str, Any] | None) -> str | None:
    """JSON text of a header table; None where a message has none."""
    if headers is None:
        return None
    return _encode(_plain(headers))


def headers_to_texts(headers: Mapping[str, Any] | None) -> list[tuple[str, str]] | None:
    """Names and values as text, values that are no text as JSON; None where a message has none."""
    if headers is None:
        return None
    return [
        (_name(name), value if isinstance(value, str) else _encode(_plain(value))) for name, value in headers.items()
    ]


def headers_to_bytes(headers: Mapping[str, Any] | None) -> list[tuple[str, bytes]] | None:
    """Names, and values as bytes: text and JSON in UTF-8. None where a message has none."""
    if headers is None:
        return None
    texts = headers_to_texts(headers) or []
    values = zip(texts, headers.values(), strict=True)
    return [(name, value if isinstance(value, bytes) else text.encode()) for (name, text), value in values]


def headers_from_json(text: str) -> dict[str, Any]:
    """Parse a JSON object into a table of headers. Raises ValueError for other text."""
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("headers are a JSON object")
    return {name: _meant(item) for name, item in value.items()}


def _plain(value: Any) -> Any:
    """A value of a table as JSON can say it."""
    match value:
        case None | bool() | str():
            return value
        case float():
            return value if math.isfinite(value) else {"$float": str(value)}
        case int():
            return int(value)
        case bytes():
            return {"$bytes": base64.b64encode(value).decode()}
        case datetime():
            return {"$timestamp": timegm(value.utctimetuple())}
        case Decimal():
            return {"$decimal": str(value)}
        case Mapping():
            return {_name(name): _plain(item) for name, item in value.items()}
        case _:
            return [_plain(item) for item in value]


def _name(name: str | bytes) -> str:
    """A key; bytes that are no UTF-8 keep their places as escapes."""
    return name if isinstance(name, str) else name.decode("utf-8", "backslashreplace")


def _meant(value: Any) -> Any:
    """Convert a JSON value into a value of a table."""
    if isinstance(value, list):
        return [_meant(item) for item in value]
    if not isinstance(value, dict):
        return value
    match value:
        case {"$bytes": str(text), **rest} if not rest:
            return base64.b64decode(text)
        case {"$timestamp": int(seconds), **rest} if not rest:
            return datetime.fromtimestamp(seconds, UTC)
        case {"$decimal": str(text), **rest} if not rest:
            return Decimal(text)
        case {"$float": str(text), **rest} if not rest:
            return float(text)
    return {name: _meant(item) for name, item in value.items()}
