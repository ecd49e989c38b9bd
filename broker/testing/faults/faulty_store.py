"""A slow, full or failing disk, and a process that dies at a commit, at the request of a test."""

from __future__ import annotations

import logging
import os
import signal
import time

from broker.server.commits.commit_thread import CommitStore
from broker.testing.faults.fault_table import OF_COMMITS
from broker.testing.faults.requested_faults import Faults, RequestedFault
from storage.batch import SealedBatch
from storage.journal.journal import Journal
from storage.space.store_space import StoreSpace
from storage.storage_errors import StoreFailed, StoreFull


class FaultyStore:
    """The message store as the commit thread uses it, with faults of commits."""

    def __init__(self, store: CommitStore, faults: Faults) -> None:
        self._store = store
        self._faults = faults

    @property
    def space(self) -> StoreSpace:
        """Its disk space."""
        return self._store.space

    @property
    def journal(self) -> Journal:
        """The journal in front of LMDB."""
        return self._store.journal

    def commit_to_journal(self, batch: SealedBatch) -> bool:
        """Return False: each batch goes through `commit`, where the faults are."""
        return False

    def catch_up(self) -> None:
        """Write the batches of the journal to LMDB: see `MessageStore`."""
        self._store.catch_up()

    def take_away(self) -> None:
        """Write the removals of the journal to LMDB: see `MessageStore`."""
        self._store.take_away()

    def commit(self, batch: SealedBatch, *, to_journal: bool) -> bool:
        """Commit a batch as `MessageStore.commit` does, with the faults that are due."""
        ordered = self._planned()
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

    def _planned(self) -> dict[str, RequestedFault]:
        fired = {name: self._faults.fire({name}, {}) for name in OF_COMMITS & self._faults.names}
        return {name: fault for name, fault in fired.items() if fault is not None}

    def reclaim(self) -> bool:
        """Delete some dead records. True while more remain."""
        return self._store.reclaim()

    def make_freed_pages_free(self) -> None:
        """Commit a no-op: see `MessageStore`."""
        self._store.make_freed_pages_free()


def _die() -> None:
    logging.shutdown()
    os.kill(os.getpid(), signal.SIGKILL)
