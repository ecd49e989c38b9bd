"""`leveret recover`: lists damaged and missing data of a stopped broker, and accepts the loss."""

from __future__ import annotations

import os

import msgspec

from broker.config import Config
from broker.server import directory_lock, recovery
from broker.server.engine import Wakeup
from broker.server.offline.offline_check import problems_of
from storage import restored_files


def missing(config: Config) -> list[str]:
    """Return sentences about damaged and missing data. Changes nothing. Raises as `check` does."""
    with directory_lock.for_command(config.server.directory):
        restored_files.finish(config.server.directory, recovery.REPLACED)
        return problems_of(config.server.directory)


def accept_loss(config: Config) -> str:
    """Open the stores without the missing data; return a sentence about the lost batches, empty if none are.

    Raises StoreLocked and StoreError.
    """
    accepting = msgspec.structs.replace(config, store=msgspec.structs.replace(config.store, accept_loss=True))
    os.umask(0o077)
    with directory_lock.for_command(config.server.directory) as lock:
        events = recovery.logged_boot(config)
        stores = recovery.open_stores(config.server.directory, lock, accept_loss=True, known_boot=events)
        try:
            recovery.recover(accepting, stores, Wakeup().pace)
            return "" if stores.messages.lost is None else stores.messages.lost.sentence
        finally:
            stores.definitions.close()
            stores.messages.close()
