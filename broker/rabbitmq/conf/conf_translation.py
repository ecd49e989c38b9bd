"""Settings of rabbitmq.conf made into ours."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from broker.config import Config, ConfigError, SettingOrigin, Translated
from broker.credentials import SECRETS, without_credentials
from broker.rabbitmq.conf.conf_keys import ROWS, Row
from broker.rabbitmq.conf.conf_lines import ConfLine, read_lines
from broker.rabbitmq.conf.conf_values import RootPath, Unfit

log = logging.getLogger("leveret.config")

SETTINGS = {
    f"{section.name}.{field.name}"
    for section in msgspec.structs.fields(Config)
    if isinstance(section.type, type)
    for field in msgspec.structs.fields(section.type)
}


class Conf(NamedTuple):
    """Settings read from files, and keys without effect here."""

    settings: Translated
    without_effect: list[str]

    def warn(self, besides: Sequence[str] = ()) -> None:
        """Name in one log line what has no effect."""
        if self.without_effect or besides:
            log.warning("without effect here: %s", ", ".join([*self.without_effect, *besides]))


def read_conf(files: Sequence[Path], environ: Mapping[str, str], root: Path = Path("/")) -> Conf:
    """Read files in order; of a key that is set twice, the later line counts. Files that they name are below `root`.

    Raises ConfigError with file, line, key and what was expected, a line for each problem.
    """
    lines, problems = read_lines(files, environ)
    latest = {line.words: line for line in lines}
    settings, used = Translated({}, {}), set[tuple[str, ...]]()
    for row in ROWS:
        found = [line for line in latest.values() if _takes(row, line)]
        if found and row.setting in SETTINGS:
            problems += _apply(row, found, settings, root)
            used.update(line.words for line in found)
    if problems:
        raise ConfigError("\n".join(dict.fromkeys(problems)))
    return Conf(settings, [line.key for words, line in latest.items() if words not in used])


def _takes(row: Row, line: ConfLine) -> bool:
    return any(_matches(key.split("."), line.words) for key in row.keys)


def _matches(pattern: Sequence[str], words: Sequence[str]) -> bool:
    return len(pattern) == len(words) and all(
        wanted in ("*", word) for wanted, word in zip(pattern, words, strict=True)
    )


def _apply(row: Row, lines: Sequence[ConfLine], settings: Translated, root: Path) -> list[str]:
    """Put the setting of a row, unless there are problems; return them."""
    section, field = row.setting.split(".")
    values, problems = list[tuple[str, Any]](), list[str]()
    for line in lines:
        try:
            values.append((line.words[-1], _value(row, line, root)))
        except Unfit as unfit:
            problems.append(f"{line.place}: expected {unfit}, got {_shown(row, line)}")
    if problems:
        return problems
    settings.tree.setdefault(section, {})[field] = row.combine(values)
    settings.origins[section, field] = SettingOrigin(lines[-1].place, _shown(row, lines[-1]))
    return []


def _value(row: Row, line: ConfLine, root: Path) -> Any:
    value = row.converter(line.words[-1])(line.value)
    if isinstance(value, RootPath):
        return str(root / value.lstrip("/")) if value.startswith("/") else str(value)
    return value


def _shown(row: Row, line: ConfLine) -> str:
    return "something else" if row.setting.split(".")[1] in SECRETS else without_credentials(line.value)
