"""Types of the values on a command line of `rabbitmqadmin` version 2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    AnyType = click.ParamType[Any]
else:
    AnyType = click.ParamType  # it takes no parameter in click before 8.4

U64_MAX = 2**64 - 1
TRUTH = {"true": True, "false": False}
TARGETS = ("queues", "classic_queues", "quorum_queues", "streams", "exchanges", "all")
STYLES = ("modern", "borderless", "markdown", "sharp", "ascii", "psql", "dots")
ALGORITHMS = {"SHA256": "SHA256", "SHA-256": "SHA256", "SHA512": "SHA512", "SHA-512": "SHA512"}


class Unusable(click.UsageError):
    """A value that its option does not take; no usage is shown with it."""


class ValueType(AnyType):
    """A type whose refusals have the tool's words."""

    def __init__(self, shown: str) -> None:
        self.name = shown

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value read. Raises Unusable."""
        if not isinstance(value, str):
            return value
        try:
            return self.read(value)
        except ValueError as error:
            option = f"{param.opts[-1]} <{param.name}>" if param is not None else self.name
            raise Unusable(f"invalid value '{value}' for '{option}'{error}", ctx) from error

    def read(self, text: str) -> Any:
        """Return the value of a text. Raises ValueError with the end of the refusal."""
        raise NotImplementedError


class WholeNumber(ValueType):
    """A number without a sign, within limits."""

    def __init__(self, shown: str, least: int, most: int) -> None:
        super().__init__(shown)
        self._least, self._most = least, most

    def read(self, text: str) -> int:
        """Return the number. Raises ValueError."""
        if not (text.isascii() and text.isdigit()):
            raise ValueError(": invalid digit found in string")
        number = int(text)
        if not self._least <= number <= self._most:
            above = "" if self._most == U64_MAX else "="
            raise ValueError(f": {text} is not in {self._least}..{above}{self._most}")
        return number


class OneOf(ValueType):
    """One of a few words; each stands for a value."""

    def __init__(self, shown: str, values: dict[str, Any], *, upper: bool = False) -> None:
        super().__init__(shown)
        self._values, self._upper = values, upper

    def read(self, text: str) -> Any:
        """Return the value of the word. Raises ValueError."""
        word = text.upper() if self._upper else text
        if word not in self._values:
            raise ValueError(f"\n  [possible values: {', '.join(self._values)}]")
        return self._values[word]


class Listed(ValueType):
    """Words with commas between."""

    def read(self, text: str) -> list[str]:
        """Return the words."""
        return [word for word in text.split(",") if word]


def _same(words: tuple[str, ...]) -> dict[str, str]:
    return {word: word for word in words}


TYPES: dict[str, AnyType] = {
    "text": click.STRING,
    "bool": OneOf("bool", dict(TRUTH)),
    "u8": WholeNumber("u8", 0, 2**8 - 1),
    "u16": WholeNumber("u16", 0, 2**16 - 1),
    "u32": WholeNumber("u32", 0, 2**32 - 1),
    "u64": WholeNumber("u64", 0, U64_MAX),
    "page": WholeNumber("page", 1, U64_MAX),
    "page_size": WholeNumber("page_size", 1, 500),
    "seconds": WholeNumber("seconds", 1, U64_MAX),
    "list": Listed("list"),
    "destination": OneOf("destination", _same(("queue", "exchange"))),
    "target": OneOf("target", _same(TARGETS)),
    "style": OneOf("style", _same(STYLES)),
    "scheme": OneOf("scheme", _same(("http", "https"))),
    "algorithm": OneOf("algorithm", ALGORITHMS, upper=True),
}
"""By the names that the table of commands uses."""
