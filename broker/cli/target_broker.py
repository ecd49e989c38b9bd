"""The data directory that a command is for, and the broker behind it: running or stopped."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import click

from broker.admin.commands.admin_command import AdminCommand
from broker.admin.protocol import AnotherUsers, NotRunning
from broker.admin.socket_conversation import ask
from broker.cli.named_directory import data_directory_options, in_use, named, target_settings
from broker.config import Config
from storage.storage_errors import StoreLocked

Command = TypeVar("Command", bound=Callable[..., Any])

ANSWER_SECONDS = 60.0
START_SECONDS = 30.0
"""Longest time from a broker's start to its first answer."""
LOOK_SECONDS = 0.05


class Target:
    """Target of a command: a running broker, which is asked, or the stores of a stopped one, which are opened."""

    def __init__(self, config: Config) -> None:
        self.config = config

    @property
    def directory(self) -> Path:
        """The data directory."""
        return self.config.server.directory

    def run(self, command: AdminCommand, *, timeout_seconds: float | None = ANSWER_SECONDS) -> Any:
        """Carry out a command, whether the broker runs or not. Raises AdministrationError and storage errors.

        One that starts, or ends, in this moment does not answer and holds the stores; it is waited for.
        """
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                return self.ask(command, timeout_seconds=timeout_seconds)
            except NotRunning:
                try:
                    return self._run_stopped(command)
                except StoreLocked:
                    if time.monotonic() > deadline:
                        raise
            time.sleep(LOOK_SECONDS)

    def ask(self, command: AdminCommand, *, timeout_seconds: float | None = ANSWER_SECONDS) -> Any:
        """Carry out a command that only a running broker can. Raises AdministrationError."""
        return ask(self.directory, command, timeout_seconds)

    def may_be_read(self) -> None:
        """Raise AnotherUsers where the data directory is closed to this user."""
        try:
            with suppress(FileNotFoundError):
                next(self.directory.iterdir(), None)
        except PermissionError as error:
            raise AnotherUsers(self.directory) from error

    def refuse_another_users(self) -> None:
        """Raise AnotherUsers where root is not the owner: that user's broker could not write what root makes."""
        if os.geteuid() == 0 and _owner(self.directory) != 0:
            raise AnotherUsers(self.directory)

    def _run_stopped(self, command: AdminCommand) -> Any:
        """Carry out a command on the stores of a stopped broker. Raises AdministrationError and storage errors.

        Root does so on its own stores only: another user's broker could not write the files that root makes in them.
        """
        self.refuse_another_users()
        from broker.server.offline.offline_commands import run

        return run(self.config, command)


def _owner(directory: Path) -> int:
    try:
        return directory.stat().st_uid
    except FileNotFoundError:
        return os.geteuid()


def await_end(directory: Path) -> None:
    """Return when no broker runs on a data directory any more. Raises StoreLocked when that takes too long."""
    deadline = time.monotonic() + START_SECONDS
    while in_use(directory):
        if time.monotonic() > deadline:
            raise StoreLocked(f"{directory}: the broker has not ended in {START_SECONDS:g} seconds")
        time.sleep(LOOK_SECONDS)


def targeted(command: Command) -> Command:
    """Give a command the options `--config` and `--data-dir`, and as its first argument the Target they name."""

    def run(**options: Any) -> Any:
        return command(Target(target_settings(named())), **options)

    run.__doc__ = command.__doc__
    run.__name__ = command.__name__
    # Options that the command itself was given so far wait in this attribute; click reads it from the outermost.
    run.__dict__.update(command.__dict__)
    return data_directory_options(run)  # type: ignore[return-value]


vhost_option = click.option("-p", "--vhost", default="/", show_default=True, metavar="VHOST", help="Virtual host.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
