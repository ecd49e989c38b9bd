"""Hides passwords in values that are shown: in URIs of shovels and upstreams, and under names such as `password`."""

from __future__ import annotations

import re
from typing import Any

HIDDEN = "(hidden)"
SECRETS = ("password", "key_password")
"""Settings whose values are secret: never shown or logged."""
URI_CHARACTERS_MAX = 4096
"""Longer texts are not searched word by word: for a MiB that took half a second."""

_OF_URI = re.compile("://[^:@/?#]*:")
_OF_ANYTHING = re.compile(":(?!//)")
"""Also of a malformed URI: `amqp:/user:password@host`."""
_WORD = re.compile(r"\S+")
_QUERY_PASSWORD = re.compile("([?&]password=)[^&#]*")
"""The password of a TLS key file in an AMQP URI."""
_SECRET_NAME = re.compile("(pass(word|wd|phrase)|secret|token|credentials?)(_hash)?$", re.IGNORECASE)


def without_credentials(value: Any) -> Any:
    """Return a JSON value with passwords hidden: those in URIs, and texts under names such as `password`."""
    if isinstance(value, str):
        return _of_text(value)
    if isinstance(value, list | tuple):
        return [without_credentials(item) for item in value]
    if isinstance(value, dict):
        return {
            _of_text(name): HIDDEN if _is_secret(name, item) else without_credentials(item)
            for name, item in value.items()
        }
    return value


def _is_secret(name: str, value: Any) -> bool:
    return bool(value) and isinstance(value, str | list) and _SECRET_NAME.search(name) is not None


def _of_text(text: str) -> str:
    if "@" in text:
        text = _hidden(text, _OF_URI)
        if len(text) <= URI_CHARACTERS_MAX:
            text = _WORD.sub(lambda word: _hidden(word[0], _OF_ANYTHING), text)
    return _QUERY_PASSWORD.sub(rf"\1{HIDDEN}", text) if "password=" in text else text


def _hidden(text: str, before: re.Pattern[str]) -> str:
    """Hide the text between `before` and the last `@`: a password that is not percent-encoded may contain one."""
    end = text.rfind("@")
    found = before.search(text, 0, end) if end > 0 else None
    return text if found is None else f"{text[: found.end()]}{HIDDEN}{text[end:]}"
