"""JSON objects of many MiB, read in short steps: a member at a time, and of a list an element at a time."""

from __future__ import annotations

import json
import re
from typing import Any

from broker.admin.short_steps import pause_if_due


async def read_object(body: bytes) -> dict[str, Any]:
    """The object that a body is. Raises ValueError, and RecursionError for what is nested without end."""
    text = _Text(body.decode())
    text.expect("{")
    found = await _members(text)
    if text.left:
        raise ValueError("more than an object")
    return found


async def _members(text: _Text) -> dict[str, Any]:
    found: dict[str, Any] = {}
    ended = text.take("}")
    while not ended:
        name = text.value()
        if not isinstance(name, str):
            raise ValueError("a name that is no text")
        text.expect(":")
        found[name] = await _elements(text) if text.take("[") else text.value()
        await pause_if_due()
        ended = text.ended("}")
    return found


async def _elements(text: _Text) -> list[Any]:
    found: list[Any] = []
    ended = text.take("]")
    while not ended:
        found.append(text.value())
        await pause_if_due()
        ended = text.ended("]")
    return found


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


class _Text:
    """A text, and how far it is read. Blanks are passed over."""

    _decode = staticmethod(json.JSONDecoder(parse_constant=_refuse).raw_decode)
    _blanks = re.compile(r"[ \t\n\r]*")

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    @property
    def left(self) -> bool:
        """There is more than blanks."""
        self._pass_blanks()
        return self._at < len(self._text)

    def take(self, character: str) -> bool:
        """Read a character, if it is the next."""
        self._pass_blanks()
        found = self._text.startswith(character, self._at)
        self._at += found
        return found

    def expect(self, character: str) -> None:
        """Read a character. Raises ValueError if another one is the next."""
        if not self.take(character):
            raise ValueError(f"{character} is missing")

    def ended(self, bracket: str) -> bool:
        """Read a bracket, or the comma before one more. Raises ValueError for anything else."""
        if self.take(bracket):
            return True
        self.expect(",")
        return False

    def value(self) -> Any:
        """Read a value. Raises ValueError and RecursionError."""
        self._pass_blanks()
        value, self._at = self._decode(self._text, self._at)
        return value

    def _pass_blanks(self) -> None:
        blanks = self._blanks.match(self._text, self._at)
        assert blanks is not None, "none is a match, too"
        self._at = blanks.end()
