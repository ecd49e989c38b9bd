"""Data directory of a command line: named by it or by the environment, or one of the usual places."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from broker.config import Config, ConfigError, ServerSettings
from broker.settings_loader import load
from storage.lock_file import BROKER, is_locked

Command = TypeVar("Command", bound=Callable[..., Any])

ROOT = "LEVERET_ROOT"
"""The variable that names the directory which stands for /, as in the container image."""
USUAL = ("var/lib/leveret", "var/lib/rabbitmq/leveret")
"""Data directories of the packaged service and of the container image, below the root directory."""

_CONFIG, _DATA_DIR = "leveret.config", "leveret.data_dir"


class Named(NamedTuple):
    """The settings file and the data directory that a command line or the environment names."""

    config: Path | None
    data_dir: str | None


def data_directory_options(command: Command) -> Command:
    """The options that name a data directory. They stand before or behind the command's name; the last one counts."""
    config = click.option(
        "--config",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Settings in TOML (see config.example.toml); default: LEVERET_CONFIG.",
        expose_value=False,
        callback=lambda ctx, _, value: _remember(ctx, _CONFIG, value),
    )
    directory = click.option(
        "--data-dir",
        metavar="DIR",
        help="The data directory; default: LEVERET_DATA_DIR, the settings, or ./leveret-data.",
        expose_value=False,
        callback=lambda ctx, _, value: _remember(ctx, _DATA_DIR, value),
    )
    return config(directory(command))


def _remember(ctx: click.Context, key: str, value: object) -> None:
    if value is not None:
        ctx.meta[key] = value


def named() -> Named:
    """Return what the current command line names, else the environment."""
    ctx = click.get_current_context(silent=True)
    meta = {} if ctx is None else ctx.meta
    config = meta.get(_CONFIG) or os.environ.get("LEVERET_CONFIG") or None
    return Named(config and Path(config), meta.get(_DATA_DIR) or os.environ.get("LEVERET_DATA_DIR") or None)


def target_settings(it: Named) -> Config:
    """The settings, with the data directory of the broker that a command is for. Raises ConfigError, also for a file.

    Where none is named it is the first of ./leveret-data and the usual places that a broker runs on, else the first
    that is there.
    """
    config = load(it.config, os.environ, data_dir=it.data_dir)
    assert_no_file(config.server.directory)
    if it.data_dir is None and config.server.data_dir == ServerSettings().data_dir:
        return load(it.config, os.environ, data_dir=str(_usual(config.server.directory)))
    return config


def assert_no_file(directory: Path) -> None:
    """Raise ConfigError where a data directory is named, and a file is there."""
    with suppress(PermissionError):  # the command itself says whose it is
        if directory.is_file():
            raise ConfigError(f"{directory} is a file: expected a data directory (--data-dir, LEVERET_DATA_DIR)")


def _usual(default: Path) -> Path:
    root = Path(os.environ.get(ROOT) or "/")
    there = [place for place in (default, *(root / usual for usual in USUAL)) if _is_directory(place)]
    return next((place for place in there if _runs(place)), there[0] if there else default)


def _is_directory(place: Path) -> bool:
    try:
        return place.is_dir()
    except PermissionError:
        return False


def _runs(place: Path) -> bool:
    try:
        return in_use(place)
    except PermissionError:
        return False


def in_use(directory: Path) -> bool:
    """A broker runs on a data directory, or is in its start or at its end. Raises PermissionError."""
    return is_locked(directory / BROKER)
