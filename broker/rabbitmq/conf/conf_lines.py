"""Reads files in the format of rabbitmq.conf: a setting in each line, `KEY = VALUE`.

A key is words of `A-Z`, `a-z`, `0-9`, `_` and `-`, with dots between; a dot inside a word is written `\\.`. A value
reaches to the end of the line or to a `#`, which begins a comment; in single quotes it may hold a `#`, blanks at its
ends, or nothing. `$(NAME)` in a value stands for a variable of the environment. This is the format of RabbitMQ 3.13;
3.10 knows no quotes.
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


def read_lines(files: Sequence[Path], environ: Mapping[str, str]) -> list[ConfLine]:
    """The settings of all files, in order. Raises ConfigError with file and line."""
    return [line for file in files for line in _lines(file, environ)]


def _lines(file: Path, environ: Mapping[str, str]) -> Iterator[ConfLine]:
    for number, text in enumerate(_text(file).split("\n"), 1):
        written = text.strip(" \t\r")
        if written and not written.startswith("#"):
            try:
                key, value = _setting(written)
                yield ConfLine(file, number, key, _VARIABLE.sub(lambda found: _variable(found[1], environ), value))
            except ValueError as error:
                raise ConfigError(f"{file}:{number}: {error}") from None


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
