"""A disk that is slow, full or broken, and a process that dies at a commit, where a test has ordered it."""

from __future__ import annotations

import logging
import os
import signal
import time

from broker.server.commits.commit_thread import CommitStore
from broker.testing.faults.fault_orders import FaultOrder, Faults
from broker.testing.faults.fault_table import OF_COMMITS
from storage.batch import SealedBatch
from storage.journal.journal import Journal
from storage.space.store_space import StoreSpace
from storage.storage_errors import StoreFailed, StoreFull


class FaultyStore:
    """The message store as the committer's thread sees it."""

    def __init__(self, store: CommitStore, faults: Faults) -> None:
        self._store = store
        self._faults = faults

    @property
    def space(self) -> StoreSpace:
        """Its room on the disk."""
        return self._store.space

    @property
    def journal(self) -> Journal:
        """What is in front of LMDB."""
        return self._store.journal

    def commit_to_journal(self, batch: SealedBatch) -> bool:
        """Leave each batch to `commit`, where faults are."""
        return False

    def catch_up(self) -> None:
        """Have LMDB take over what the journal has: see `MessageStore`."""
        self._store.catch_up()

    def take_away(self) -> None:
        """Have LMDB take away what the journal says is gone: see `MessageStore`."""
        self._store.take_away()

    def commit(self, batch: SealedBatch, *, to_journal: bool) -> bool:
        """As `MessageStore.commit`, but for what is ordered."""
        ordered = self._ordered()
        if "slow-disk" in ordered:
            time.sleep(ordered["slow-disk"].parameters["milliseconds"] / 1000)
        if "die-before-commit" in ordered:
            _die()
        if "fail-sync" in ordered:
            raise StoreFailed("the sync failed, by order of a test")
        if "full-disk" in ordered:
            raise StoreFull("the disk is full, by order of a test")
        journaled = self._store.commit(batch, to_journal=to_journal)
        if "die-after-commit" in ordered:
            _die()
        return journaled

    def _ordered(self) -> dict[str, FaultOrder]:
        fired = {name: self._faults.fire({name}, {}) for name in OF_COMMITS & self._faults.names}
        return {name: order for name, order in fired.items() if order is not None}

    def reclaim(self) -> bool:
        """Clear away some of what is dead. True while more remains."""
        return self._store.reclaim()

    def make_freed_pages_free(self) -> None:
        """Write next to nothing: see `MessageStore`."""
        self._store.make_freed_pages_free()


def _die() -> None:
    logging.shutdown()
    os.kill(os.getpid(), signal.SIGKILL)
