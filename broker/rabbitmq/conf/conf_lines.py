"""Reads files in the format of rabbitmq.conf: a setting in each line, `KEY = VALUE`.

A key is words of `A-Z`, `a-z`, `0-9`, `_` and `-`, with dots between; a dot inside a word is written `\\.`. A value
reaches to the end of the line or to a `#`, which begins a comment; in single quotes it may hold a `#`, blanks at its
ends, or nothing. Between three single quotes it may have several lines. `$(NAME)` in a value stands for a variable of
the environment. This is the format of RabbitMQ 3.13; 3.10 knows no quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from broker.config import ConfigError

_KEY = re.compile(r"(?:[A-Za-z0-9_-]|\\\.)+(?:\.(?:[A-Za-z0-9_-]|\\\.)+)*")
_DOT = re.compile(r"(?<!\\)\.")
_QUOTED = re.compile(r"'([^']*)'[ \t]*(?:#.*)?")
_QUOTES = "'''"
_OPENED = re.compile(r"[^=]*=\s*'''(?!.*''').*")
_VARIABLE = re.compile(r"\$\(([^()]*)\)")


class ConfLine(NamedTuple):
    """A setting, and where it stands."""

    file: Path
    number: int
    key: str
    value: str

    @property
    def place(self) -> str:
        """For messages."""
        return f"{self.file}:{self.number}: {self.key}"

    @property
    def words(self) -> tuple[str, ...]:
        """The key's words."""
        return tuple(word.replace("\\.", ".") for word in _DOT.split(self.key))


def read_lines(files: Sequence[Path], environ: Mapping[str, str]) -> tuple[list[ConfLine], list[str]]:
    """Return the settings of all files in order, and the problems of lines that are none, each with file and line.

    Raises ConfigError for a file that cannot be read.
    """
    lines, problems = list[ConfLine](), list[str]()
    for file in files:
        for number, written in _written(_text(file)):
            try:
                key, value = _setting(written)
                value = _VARIABLE.sub(lambda found: _variable(found[1], environ), value)
            except ValueError as error:
                problems.append(f"{file}:{number}: {error}")
            else:
                lines.append(ConfLine(file, number, key, value))
    return lines, problems


def _written(text: str) -> Iterator[tuple[int, str]]:
    """Yield the settings with the numbers of their first lines; a value between ''' may have several lines."""
    numbered = enumerate((line.strip(" \t\r") for line in text.split("\n")), 1)
    for number, line in numbered:
        if not line or line.startswith("#"):
            continue
        written = line
        if _OPENED.fullmatch(line):
            for _, following in numbered:
                written += f"\n{following}"
                if following.endswith(_QUOTES):
                    break
        yield number, written


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: is not UTF-8 text") from error


def _setting(written: str) -> tuple[str, str]:
    key, equals, rest = written.partition("=")
    key, rest = key.rstrip(), rest.lstrip()
    if not equals or not _KEY.fullmatch(key):
        raise ValueError("expected KEY = VALUE, with a key such as listeners.tcp.default")
    if rest.startswith(_QUOTES):
        if len(rest) < 2 * len(_QUOTES) or not rest.endswith(_QUOTES):
            raise ValueError(f"{key}: expected {_QUOTES} at the end of the value of several lines")
        return key, rest[len(_QUOTES) : -len(_QUOTES)].strip("\n")
    if rest.startswith("'"):
        quoted = _QUOTED.fullmatch(rest)
        if quoted is None:
            raise ValueError(f"{key}: expected nothing but a comment behind the second single quote")
        return key, quoted[1]
    value = rest.partition("#")[0].rstrip()
    if not value:
        raise ValueError(f"{key}: expected a value; an empty one is written ''")
    return key, value


def _variable(name: str, environ: Mapping[str, str]) -> str:
    if name not in environ:
        raise ValueError(f"the environment has no variable {name}")
    return environ[name]
