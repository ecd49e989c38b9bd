"""The data directory that a command is for, and the broker behind it: running or stopped."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from broker.admin.protocol import NotRunning, ask
from broker.config import Config, load
from storage.storage_errors import StoreLocked

Command = TypeVar("Command", bound=Callable[..., Any])

ANSWER_SECONDS = 60.0
START_SECONDS = 30.0
"""How long a broker that starts may take until it answers."""
LOOK_SECONDS = 0.05
LOCK_FILE = "broker.lock"
"""What a broker locks in its data directory."""


class Target:
    """Where a command goes. A running broker is asked; a stopped one's stores are opened for the command."""

    def __init__(self, config: Config) -> None:
        self.config = config

    @property
    def directory(self) -> Path:
        """The data directory."""
        return self.config.server.directory

    def run(self, command: str, *, timeout_seconds: float | None = ANSWER_SECONDS, **arguments: object) -> Any:
        """Carry out a command, whether the broker runs or not. Raises AdministrationError and storage errors.

        One that starts, or ends, in this moment does not answer and holds the stores; it is waited for.
        """
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                return self.ask(command, timeout_seconds=timeout_seconds, **arguments)
            except NotRunning:
                try:
                    return self.run_stopped(command, **arguments)
                except StoreLocked:
                    if time.monotonic() > deadline:
                        raise
            time.sleep(LOOK_SECONDS)

    def ask(self, command: str, *, timeout_seconds: float | None = ANSWER_SECONDS, **arguments: object) -> Any:
        """Carry out a command that only a running broker can. Raises AdministrationError."""
        return ask(self.directory, command, arguments, timeout_seconds)

    def run_stopped(self, command: str, **arguments: object) -> Any:
        """Carry out a command on the stores of a stopped broker. Raises AdministrationError and storage errors."""
        from broker.server.offline.offline_commands import run

        return run(self.config, command, arguments)


def await_end(directory: Path) -> None:
    """Return when no broker runs on a data directory any more. Raises StoreLocked when that takes too long."""
    deadline = time.monotonic() + START_SECONDS
    while in_use(directory):
        if time.monotonic() > deadline:
            raise StoreLocked(f"{directory}: the broker has not ended in {START_SECONDS:g} seconds")
        time.sleep(LOOK_SECONDS)


def in_use(directory: Path) -> bool:
    """A broker runs on a data directory, or is in its start or at its end."""
    try:
        descriptor = os.open(directory / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        # Shared: a broker that starts in this moment waits for readers of the lock.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def targeted(command: Command) -> Command:
    """Give a command the options `--config` and `--data-dir`, and as its first argument the Target they name."""

    def run(config: Path | None, data_dir: str | None, **options: Any) -> Any:
        return command(Target(load(config, os.environ, data_dir=data_dir)), **options)

    run.__doc__ = command.__doc__
    run.__name__ = command.__name__
    # Options that the command itself was given so far wait in this attribute; click reads it from the outermost.
    run.__dict__.update(command.__dict__)
    return data_directory_options(run)  # type: ignore[return-value]


def data_directory_options(command: Command) -> Command:
    """The options that name a data directory."""
    config = click.option(
        "--config",
        type=click.Path(path_type=Path),
        envvar="LEVERET_CONFIG",
        metavar="FILE",
        help="Settings in TOML (see config.example.toml).",
    )
    directory = click.option(
        "--data-dir",
        envvar="LEVERET_DATA_DIR",
        metavar="DIR",
        help="The data directory; default ./leveret-data, or what the settings say.",
    )
    return config(directory(command))


vhost_option = click.option(
    "-p", "--vhost", default="/", show_default=True, metavar="VHOST", help="The virtual host it is about."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Answer in JSON, for programs.")
