"""Settings read from the file, the environment and the command line, put over each other and checked."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

from broker.config import (
    DEFAULTS_OF,
    OFF,
    Config,
    ConfigError,
    DefinitionsSettings,
    ManagementSettings,
    PrometheusSettings,
    Translated,
    parse_address,
)
from broker.environment_settings import from_environment
from broker.setting_errors import expected, explain, place_of

Section = TypeVar("Section", ManagementSettings, PrometheusSettings)
LISTENING = (
    ("server", "listen"),
    ("tls", "listen"),
    ("management", "listen"),
    ("management", "tls_listen"),
    ("prometheus", "listen"),
)


def load(
    path: Path | None,
    environ: Mapping[str, str],
    *,
    beneath: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    translated: Translated | None = None,
    data_dir: str | None = None,
    listen: Sequence[str] = (),
    management_listen: Sequence[str] = (),
    prometheus_listen: Sequence[str] = (),
    definitions: str | None = None,
) -> Config:
    """Read the settings: defaults (overridden by `beneath`), the file (None: no file), settings of another
    format, the environment, the command line.

    `off` as an address of the environment or command line means no address. Raises ConfigError.
    """
    tree = {} if path is None else _read(path)
    problems = [f"{path}: {problem}" for problem in _problems(tree)]
    if problems:
        raise ConfigError("\n".join(problems))
    others = [*filter(None, (translated,)), from_environment(environ)]
    config = _put_together([beneath, tree], others)
    if config.identity.personality in DEFAULTS_OF:
        config = _put_together([DEFAULTS_OF[config.identity.personality], beneath, tree], others)
    origins = {place: origin.place for other in others for place, origin in other.origins.items()}
    for section, field in LISTENING:
        where = origins.get((section, field), f"{path}: {section}.{field}")
        _check_addresses(getattr(getattr(config, section), field), where)
    _check_addresses(listen, "--listen")
    config = _overridden(config, data_dir, listen, definitions)
    management = _replaced_addresses(config.management, management_listen, "--management-listen")
    prometheus = _replaced_addresses(config.prometheus, prometheus_listen, "--prometheus-listen")
    return msgspec.structs.replace(config, management=management, prometheus=prometheus)


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 text") from error
    except (ValueError, RecursionError) as error:  # also numbers of thousands of digits, and too deep nesting
        raise ConfigError(f"{path}: is not TOML: {error}") from error


def _problems(tree: dict[str, Any]) -> Iterator[str]:
    """Yield the problems of a file, the first one of each setting."""
    for name, section in tree.items():
        settings = [{key: value} for key, value in section.items()] if isinstance(section, dict) else ()
        for part in settings or (section,):
            try:
                msgspec.convert({name: part}, Config)
            except msgspec.ValidationError as error:
                yield explain(str(error), {name: part}, Config)


def _put_together(trees: Sequence[Mapping[str, Mapping[str, Any]]], others: Sequence[Translated]) -> Config:
    """Merge settings, later ones over earlier ones. Raises ConfigError for an invalid one of `others`."""
    layers = *trees, *(other.tree for other in others)
    sections = dict.fromkeys(name for layer in layers for name in layer)
    merged = {name: {key: layer[name][key] for layer in layers for key in layer.get(name, {})} for name in sections}
    problems = list[str]()
    while True:  # one problem after the other: each is taken out, so that all are named
        try:
            config = msgspec.convert(merged, Config)
            break
        except msgspec.ValidationError as error:
            keys = place_of(str(error))
            place = keys[0], keys[1]
            origin = next(other.origins[place] for other in reversed(others) if place in other.origins)
            problems.append(f"{origin.place}: expected {expected(keys, Config)}, got {origin.shown}")
            del merged[place[0]][place[1]]
    if problems:
        raise ConfigError("\n".join(problems))
    return config


def _check_addresses(texts: Sequence[str], where: str) -> None:
    for text in texts:
        try:
            parse_address(text)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from error


def _replaced_addresses(section: Section, given: Sequence[str], option: str) -> Section:
    """Return a section with the addresses of the command line, if any; `off` means no address."""
    if not given:
        return section
    wanted = () if tuple(given) == (OFF,) else tuple(given)
    _check_addresses(wanted, option)
    return msgspec.structs.replace(section, listen=wanted)


def _overridden(config: Config, data_dir: str | None, listen: Sequence[str], definitions: str | None) -> Config:
    server = config.server
    if data_dir is not None:
        server = msgspec.structs.replace(server, data_dir=data_dir)
    if listen:
        server = msgspec.structs.replace(server, listen=tuple(listen))
    imported = config.definitions if definitions is None else DefinitionsSettings(file=definitions)
    return msgspec.structs.replace(config, server=server, definitions=imported)
