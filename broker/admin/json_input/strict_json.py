"""JSON without what cannot be written again: NaN, and numbers beyond the range of a double."""

from __future__ import annotations

import json
import math
from typing import Any

DEPTH_MAX = 100
"""Levels of lists and objects: an AMQP table of 64 levels within a request fits. Python's own limit is some 900."""


class UnreadableJson(ValueError):
    """JSON of valid grammar that is refused; the text says why."""


def _refuse(constant: str) -> None:
    raise UnreadableJson(f"{constant} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise UnreadableJson("a number is beyond the range of a double")
    return number


STRICT = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)


def decode_json(content: str | bytes) -> Any:
    """Return the value of a whole text; bytes are UTF-8. Raises ValueError."""
    text = content if isinstance(content, str) else content.decode("utf-8-sig")
    try:
        return STRICT.decode(text)
    except RecursionError:
        raise too_deep() from None


def too_deep() -> UnreadableJson:
    """Return the error for more than DEPTH_MAX levels."""
    return UnreadableJson(f"nested too deeply; the limit is {DEPTH_MAX} levels")
