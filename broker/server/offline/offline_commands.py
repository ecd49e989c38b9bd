"""Commands on the data directory of a stopped broker.

The stores are opened and recovered as for a start, by the same code, but no port is opened. While a broker
runs they are locked, and the command is refused.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

import trio

from broker.admin.commands.admin_command import AdminCommand
from broker.admin.commands.command_execution import carry_out
from broker.admin.protocol import AdministrationError
from broker.config import Config
from broker.server import directory_lock, recovery
from broker.server.engine import Wakeup
from broker.server.offline.offline_check import check
from broker.server.recovery import DEFINITIONS_FILE, MESSAGES_DIRECTORY, Stores
from broker.server.server import Server
from storage import restored_files


def run(config: Config, command: AdminCommand) -> object:
    """Carry out a command and return its answer. Raises AdministrationError and StoreError."""
    directory = directory_with_stores(config)
    # Read as a broker would read it: the types of arguments are not checked before.
    checked = type(command).parse(command.request()["arguments"])
    return trio.run(_run, config, directory, checked)


def check_stores(config: Config) -> dict[str, Any]:
    """Check the stores. Returns the report. Raises AdministrationError and StoreError."""
    return check(directory_with_stores(config))


def directory_with_stores(config: Config) -> Path:
    """Return the data directory. Raises AdministrationError `not_found` if it has no stores."""
    directory = config.server.directory
    has_stores = (directory / DEFINITIONS_FILE).exists() or (directory / MESSAGES_DIRECTORY).exists()
    if not has_stores and not restored_files.is_unfinished(directory):
        text = "name another one with --data-dir or LEVERET_DATA_DIR"
        raise AdministrationError(
            "not_found", f"no broker has run on the data directory {directory.absolute()} yet: {text}"
        )
    return directory


async def _run(config: Config, directory: Path, command: AdminCommand) -> object:
    os.umask(0o077)
    # The only channels are those of commands, whose refusals are shown as the commands' own.
    logging.getLogger("leveret.channel").setLevel(logging.CRITICAL)
    with directory_lock.for_command(directory) as lock:
        stores = recovery.open_stores(
            directory,
            lock,
            accept_loss=config.store.accept_loss,
            known_boot=recovery.logged_boot(config),
        )
        try:
            return await _carry_out(config, stores, command)
        finally:
            stores.definitions.close()
            stores.messages.close()


async def _carry_out(config: Config, stores: Stores, command: AdminCommand) -> object:
    wakeup = Wakeup()
    recovered = recovery.recover(config, stores, wakeup.pace)
    answer, failure = None, None
    async with trio.open_nursery() as nursery:
        server = Server(config, stores, recovered, wakeup, nursery)
        server.committer.start(recovered.tombstones)
        for task in (server.committer.watch, server.definition_log.run, server.engine.run):
            nursery.start_soon(task)
        try:
            answer = await carry_out(server.administration, command)
        except AdministrationError as error:
            failure = error  # raised outside the nursery, which would wrap it in an ExceptionGroup
        with trio.move_on_after(config.shutdown.timeout_seconds) as limit:
            await server.definition_log.flush()
            await server.committer.finish()
        if limit.cancelled_caught:
            _give_up()
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return answer


def _give_up() -> NoReturn:
    """End the process: the commit thread waits for disk space, and the stores must not be closed while it runs."""
    sys.stderr.write("leveret: error: the disk is full, or does not answer: free some space, then repeat it\n")
    sys.stderr.flush()
    os._exit(1)
