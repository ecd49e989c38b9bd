"""JSON as it is taken everywhere: what can be written down again, so no NaN and no number beyond a double's range."""

from __future__ import annotations

import json
import math
from typing import Any

DEPTH_MAX = 100
"""How deeply lists and objects may be nested: an AMQP table of 64 levels within a request fits. Python's own stack ends
at some 900."""


class UnreadableJson(ValueError):
    """JSON that is refused for something else than its grammar; the text says for what."""


def _refuse(constant: str) -> None:
    raise UnreadableJson(f"{constant} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise UnreadableJson("a number is beyond the range of a double")
    return number


STRICT = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)


def decode_json(content: str | bytes) -> Any:
    """The value that a whole text is, of UTF-8 where it is bytes. Raises ValueError."""
    text = content if isinstance(content, str) else content.decode("utf-8-sig")
    try:
        return STRICT.decode(text)
    except RecursionError:
        raise too_deep() from None


def too_deep() -> UnreadableJson:
    """Lists and objects are nested more than DEPTH_MAX deep."""
    return UnreadableJson(f"nested too deeply; the limit is {DEPTH_MAX} levels")
