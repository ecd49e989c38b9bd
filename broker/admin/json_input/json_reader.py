"""JSON of many MiB, read in short steps, with a bound on how many values it holds.

A window of the text at a time is decoded in one piece. A list or an object that does not fit the window is read element
by element, and a text piece by piece. So steps and memory are bounded whatever the text holds: it is refused at the
first value beyond the limit.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from broker.admin.json_input.body_parts import BodyParts
from broker.admin.json_input.strict_json import DEPTH_MAX, STRICT, UnreadableJson, too_deep
from broker.admin.short_steps import pause_if_due

WINDOW_BYTES = 32 * 1024
"""Bytes decoded at once: 0.5 ms if all of them are brackets."""
VALUES_MAX = 5000
"""Values in a request, or in an entry of a file. Each is a few microseconds of work for whoever handles it."""
OTHER_VALUES_MAX = 20_000
"""Values in a member of an unknown name: skipping them takes a second of short steps."""
OTHER_TEXT_MAX = 255
"""Characters of a text of an unknown name that is kept: versions and the like."""

_LONGER: Any = object()
"""Stands for a value that does not fit the window."""
_blanks = re.compile(r"[ \t\n\r]*").match
_inside_text = re.compile(r'(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+').match
_ESCAPE = len(r"\ud83d")
_CUT = len("e+")
"""Characters at a window's end: a number that ends within them may go on in the next window."""

Row = Callable[[str, int, Any], Any]


class Rows(Protocol):
    """A list, or what keeps its elements in less memory."""

    def append(self, row: Any, /) -> None:
        """Add an element at the end."""


class ValueBound:
    """The number of values that may still come."""

    def __init__(self, values_max: float) -> None:
        self._most = values_max
        self._left = values_max

    def count(self, value: Any, depth: int) -> None:
        """Count a value with all that is in it, within `depth` lists and objects. Raises UnreadableJson."""
        level = [value]
        while level:
            self.add(len(level))
            below = [each for each in level if type(each) in (dict, list)]
            depth += bool(below)
            check_depth(depth)
            level = [item for each in below for item in (each.values() if type(each) is dict else each)]

    def add(self, values: int) -> None:
        """Count values. Raises UnreadableJson beyond the limit."""
        self._left -= values
        if self._left < 0:
            raise UnreadableJson(f"more than {self._most:.0f} values in one request, or one entry of a file")


def check_depth(depth: int) -> None:
    """Raise UnreadableJson for more than DEPTH_MAX lists and objects within each other."""
    if depth > DEPTH_MAX:
        raise too_deep()


async def read_json(body: BodyParts, values_max: float = VALUES_MAX, *, long_as_bytes: bool = False) -> Any:
    """Return the value of a body, which is used up.

    Raises ValueError for malformed JSON, and UnreadableJson beyond a limit. With `long_as_bytes` a text that does not
    fit the window is returned as its bytes, which takes a fourth of the memory.
    """
    text = _Text(body, long_as_bytes=long_as_bytes)
    found = await text.value(ValueBound(values_max))
    await text.finish()
    return found


async def read_object(body: BodyParts, lists: Mapping[str, Callable[[], Rows]], row: Row) -> dict[str, Any]:
    """Return the object of a body, which is used up.

    Members named in `lists` may have any number of elements, each with its own limit. Their elements are appended to
    what `lists` makes; `row` converts each, given the list's name, the element's number in it, and its value. Members
    of other names have a limit, too, and are None unless they are a short text. Raises ValueError, and the errors of
    `row`.
    """
    text = _Text(body)
    found: dict[str, Any] = {}
    await text.expect("{")
    ended = await text.take("}")
    while not ended:
        name = await text.name()
        if name not in lists:
            value = await text.value(ValueBound(OTHER_VALUES_MAX))
            found[name] = value if isinstance(value, str) and len(value) <= OTHER_TEXT_MAX else None
        elif await text.take("["):
            found[name] = await _elements(text, lists[name](), partial(row, name))
        else:
            found[name] = await text.value(ValueBound(VALUES_MAX))
        ended = await text.ended("}")
    await text.finish()
    return found


async def _elements(text: _Text, rows: Rows, row: Callable[[int, Any], Any]) -> Rows:
    number = 0
    ended = await text.take("]")
    while not ended:
        rows.append(row(number, await text.value(ValueBound(VALUES_MAX))))
        number += 1
        ended = await text.ended("]")
    return rows


class _Text:
    """A text with the window of it that is decoded, and the place in that. Each method skips blanks first."""

    def __init__(self, body: BodyParts, *, long_as_bytes: bool = False) -> None:
        self._body = body
        self._long_as_bytes = long_as_bytes
        self._window = ""
        self._at = 0
        self._is_last = False
        self._move()

    async def finish(self) -> None:
        """Raise ValueError if anything is left."""
        await self._pass_blanks()
        if self._at < len(self._window):
            raise ValueError("more than one value")

    async def take(self, character: str) -> bool:
        """Read a character, if it is the next."""
        await self._pass_blanks()
        found = self._window.startswith(character, self._at)
        self._at += found
        return found

    async def expect(self, character: str) -> None:
        """Read a character. Raises ValueError if another one is the next."""
        if not await self.take(character):
            raise ValueError(f"{character} is missing")

    async def ended(self, bracket: str) -> bool:
        """Read a closing bracket (True), or the comma before one more element. Raises ValueError for anything else."""
        if await self.take(bracket):
            return True
        await self.expect(",")
        return False

    async def name(self) -> str:
        """Read the name of a member. Raises ValueError, also for a name that does not fit the window."""
        await self._pass_blanks()
        name = self._decoded()
        if not isinstance(name, str):
            raise ValueError(f"the name of a member is not a text, or longer than {WINDOW_BYTES} bytes")
        await self.expect(":")
        return name

    async def value(self, bound: ValueBound, depth: int = 0) -> Any:
        """Read a value. Raises ValueError."""
        await self._pass_blanks()
        value = self._decoded()
        await pause_if_due()
        if value is not _LONGER:
            bound.count(value, depth)
            return value
        bound.add(1)
        check_depth(depth)
        if await self.take("["):
            return await self._elements(bound, depth + 1)
        if await self.take("{"):
            return await self._members(bound, depth + 1)
        await self.expect('"')
        return await self._long_text()

    async def _elements(self, bound: ValueBound, depth: int) -> list[Any]:
        found: list[Any] = []
        ended = await self.take("]")
        while not ended:
            found.append(await self.value(bound, depth))
            ended = await self.ended("]")
        return found

    async def _members(self, bound: ValueBound, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        ended = await self.take("}")
        while not ended:
            name = await self.name()
            found[name] = await self.value(bound, depth)
            ended = await self.ended("}")
        return found

    async def _long_text(self) -> str | bytearray:
        """Read the rest of a text, in pieces that end neither in an escape nor within a surrogate pair."""
        pieces: list[str] = []
        encoded = bytearray()
        ended = False
        while not ended:
            self._move()
            inside = _inside_text(self._window)
            end = inside.end() if inside else 0
            ended = self._window.startswith('"', end)
            if not ended and (end <= _ESCAPE or self._is_last):
                raise ValueError("a text without an end")
            piece = STRICT.decode(f'"{self._window[:end]}"')
            if not ended and "\ud800" <= piece[-1] <= "\udbff":
                piece, end = piece[:-1], end - _ESCAPE
            if self._long_as_bytes:
                encoded += piece.encode("utf-8", "surrogateescape")
            else:
                pieces.append(piece)
            self._at = end + ended
            await pause_if_due()
        return encoded if self._long_as_bytes else "".join(pieces)

    def _decoded(self) -> Any:
        """Return the next value; _LONGER if it does not fit a window."""
        while True:
            try:
                value, end = STRICT.raw_decode(self._window, self._at)
            except UnreadableJson:
                raise
            except RecursionError:
                raise too_deep() from None
            except ValueError:
                if self._is_last:
                    raise
            else:
                if self._is_last or isinstance(value, str | list | dict) or end + _CUT < len(self._window):
                    self._at = end
                    return value
            if not self._at:
                return _LONGER
            self._move()

    async def _pass_blanks(self) -> None:
        while (blanks := _blanks(self._window, self._at)) is not None:
            self._at = blanks.end()
            if self._at < len(self._window) or self._is_last:
                return
            self._move()
            await pause_if_due()

    def _move(self) -> None:
        """Move the window to the place up to which the text is read."""
        self._body.drop(len(self._window[: self._at].encode()))
        piece = self._body.first(WINDOW_BYTES)
        self._is_last = len(piece) == len(self._body)
        self._window, _ = codecs.utf_8_decode(piece, "strict", self._is_last)
        self._at = 0
