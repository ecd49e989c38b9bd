"""The disk under a message store, which a test holds up."""

from __future__ import annotations

import threading

import pytest

from storage.batch import SealedBatch
from storage.messages.message_store import MessageStore


class HeldDisk:
    """Notes which commits have begun. While `open` is not set, none that has begun ends; it is set at first."""

    def __init__(self, store: MessageStore, patch: pytest.MonkeyPatch) -> None:
        self.begun: list[SealedBatch] = []
        self.open = threading.Event()
        self.open.set()
        self._commit = store.commit
        patch.setattr(store, "commit", self._held_commit)

    def _held_commit(self, batch: SealedBatch, *, to_journal: bool = True) -> bool:
        self.begun.append(batch)
        assert self.open.wait(30), "nobody opened the disk"
        return self._commit(batch, to_journal=to_journal)

    @property
    def sizes(self) -> list[int]:
        """Number of messages in each batch begun."""
        return [sum(len(lane.puts) for lane in batch.lanes) for batch in self.begun]
