"""Options of RabbitMQ's command lines: before or behind the verb, as Elixir's OptionParser reads them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple


class Option(NamedTuple):
    """An option: its kind is bool, str, int or float; a bool stands without a value."""

    name: str
    kind: type[Any]
    short: str = ""


GENERAL = (
    Option("node", str, "n"),
    Option("quiet", bool, "q"),
    Option("silent", bool, "s"),
    Option("longnames", bool, "l"),
    Option("timeout", float, "t"),
    Option("vhost", str, "p"),
    Option("help", bool, "?"),
    Option("version", bool, "V"),
    Option("formatter", str),
    Option("table-headers", bool),
    Option("online", bool),
    Option("offline", bool),
    Option("local", bool),
    Option("dry-run", bool),
    Option("script-name", str),
    Option("erlang-cookie", str),
    Option("print-stacktrace", bool),
    Option("printer", str),
    Option("file", str),
    Option("rabbitmq-home", str),
    Option("mnesia-dir", str),
    Option("plugins-dir", str),
    Option("enabled-plugins-file", str),
    Option("aliases-file", str),
    Option("data-dir", str),
    Option("config", str),
)
"""Those of every verb; the last two are ours: whose broker it is."""

NUMBER = re.compile(r"-\d+(\.\d+)?")
_NUMBERS = {int: re.compile(r"-?\d+"), float: re.compile(r"-?\d+(\.\d+)?")}


class ParsedLine(NamedTuple):
    """A command line that was read: options by name, everything else in its order, and what cannot be understood."""

    options: dict[str, Any]
    arguments: list[str]
    wrong: list[tuple[str, str]]


def read_line(words: Sequence[str], options: Sequence[Option]) -> ParsedLine:
    """Read options wherever they stand, up to `--`."""
    return _Reader(words, options).read()


class _Reader:
    def __init__(self, words: Sequence[str], options: Sequence[Option]) -> None:
        self._words = list(words)
        self._long = {option.name: option for option in options}
        self._short = {option.short: option for option in options if option.short}
        self._line = ParsedLine({}, [], [])

    def read(self) -> ParsedLine:
        while self._words:
            word = self._words.pop(0)
            if word == "--":
                self._line.arguments.extend(self._words)
                break
            if word.startswith("--"):
                self._read_long(word)
            elif word.startswith("-") and len(word) > 1 and not NUMBER.fullmatch(word):
                self._read_short(word)
            else:
                self._line.arguments.append(word)
        return self._line

    def _read_long(self, word: str) -> None:
        name, equals, value = word[2:].partition("=")
        negated = name.removeprefix("no-")
        option = self._long.get(name)
        if option is None and negated != name and getattr(self._long.get(negated), "kind", None) is bool and not equals:
            self._line.options[negated] = False
        elif option is None:
            self._line.wrong.append((f"--{name}", value))
        else:
            self._take(option, f"--{name}", value if equals else None)

    def _read_short(self, word: str) -> None:
        letters, equals, value = word[1:].partition("=")
        known = [self._short.get(letter) for letter in letters]
        if len(letters) == 1 and known[0] is not None:
            self._take(known[0], word[:2], value if equals else None)
        elif known and all(option is not None and option.kind is bool for option in known):
            self._line.options.update({option.name: True for option in known if option is not None})
        else:
            self._line.wrong.append((f"-{letters}", value))

    def _take(self, option: Option, written: str, value: str | None) -> None:
        if option.kind is bool:
            if value not in (None, "true", "false"):
                self._line.wrong.append((written, value or ""))
                return
            self._line.options[option.name] = value != "false"
            return
        if value is None and self._words and self._is_value(self._words[0]):
            value = self._words.pop(0)
        fits = value is not None and (option.kind is str or _NUMBERS[option.kind].fullmatch(value))
        if value is None or not fits:
            self._line.wrong.append((written, value or ""))
        else:
            self._line.options[option.name] = option.kind(value)

    @staticmethod
    def _is_value(word: str) -> bool:
        return not word.startswith("-") or len(word) == 1 or NUMBER.fullmatch(word) is not None
