"""A life of both stores while they are shipped, with a ledger of what they held at each position."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from threading import Lock
from types import TracebackType

from broker.server.shipping.ship_thread import ShipRules, ShipThread
from storage.definitions.definition_rows import Change, Put, QueueRow, VhostRow, delete
from storage.definitions.definition_store import DefinitionStore
from storage.messages.message_store import MessageStore
from storage.ship.place_owner import PlaceOwner
from storage.ship.restored_moment import Moment, RestoredMoment, restore_moment
from storage.ship.retention import ShipRetention
from storage.ship.ship_buffer import ShipBuffer
from storage.ship.targets.ship_target import ShipTarget
from tests.unit.storage.writing import Writer, bodies

KEPT = ShipRetention(3600.0, 2)
RULES = ShipRules(0.01, 1 << 20, 3600.0, 1 << 30, 0, KEPT)
QUEUES = 3
LARGE = bytes(5 << 20)
"""A body too large for the journal: its batch goes to LMDB at once."""
SHIP_SECONDS = 60.0

Contents = tuple[list[QueueRow], list[list[bytes]]]
"""Durable queues, and the bodies in each, by id."""


class ShippedLife(AbstractContextManager["ShippedLife"]):
    """Both stores of a directory, open and shipped."""

    def __init__(
        self,
        directory: Path,
        target: ShipTarget,
        rules: ShipRules = RULES,
        buffer_bytes: int = 1 << 30,
        on_safe: Callable[[], None] | None = None,
        *,
        owned: bool = False,
    ) -> None:
        """`owned`: it claims the target, and announces its chain."""
        self._committing = Lock()
        self.definitions = DefinitionStore.open(directory / "definitions.sqlite")
        uuid = self.definitions.uuid
        self.messages = MessageStore.open(directory / "messages", store_uuid=uuid, journal_bytes=4 << 20)
        self.buffer = ShipBuffer(buffer_bytes, lambda: None, on_safe)
        self.messages.journal.on_durable = self.buffer.batch
        self.definitions.on_durable = self.buffer.definitions
        self._thread = ShipThread(
            self.messages, self.definitions, target, rules, self.buffer, directory, self._catch_up
        )
        self._owner = PlaceOwner(target, str(target), directory) if owned else None
        self.writer = Writer(self.messages)
        self.stop_seconds = SHIP_SECONDS
        """Time in which what waits is shipped at the end."""
        self._live: dict[int, list[int]] = {}
        self._queue_id = 0
        self.held: dict[int, Contents] = {0: self.contents()}
        """The contents at each position."""

    def __enter__(self) -> ShippedLife:
        self._thread.start(self._owner)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.stop(self.stop_seconds if error is None else 0.0)
        self.messages.close()
        self.definitions.close()

    def _catch_up(self) -> None:
        with self._committing:
            self.messages.catch_up()

    def state(self) -> str:
        """The reason why nothing is written at present."""
        return self._thread.state().problem

    @property
    def bases(self) -> int:
        """Bases that were shipped."""
        return self._thread.state().bases

    @property
    def position(self) -> int:
        """Position up to which everything is at the target."""
        return self._thread.state().position

    def await_shipped(self) -> None:
        """Return when all is at the target."""
        deadline = time.monotonic() + SHIP_SECONDS
        while self.buffer.lag().bytes or not self.bases or self.buffer.dropping:
            assert time.monotonic() < deadline, f"not shipped: {self._thread.state()}"
            time.sleep(0.005)

    # What happens

    def declare(self) -> int:
        """Declare a queue."""
        self._queue_id += 1
        row = QueueRow(self._queue_id, "/", f"q{self._queue_id}", False, b"")
        self._define([Put(VhostRow("/")), Put(row)] if self._queue_id == 1 else [Put(row)])
        self._live[self._queue_id] = []
        return self._queue_id

    def delete(self, queue_id: int) -> None:
        """Delete a queue: the definition first, then its messages."""
        self._define([delete(QueueRow, id=queue_id)])
        self.writer.delete(queue_id)
        del self._live[queue_id]
        self.commit()

    def publish(self, queue_id: int, *contents: bytes) -> None:
        """Publish messages in one batch."""
        self._live[queue_id] += self.writer.puts(queue_id, contents)
        self.commit()

    def settle(self, queue_id: int, count: int) -> None:
        """Settle the oldest messages."""
        settled, self._live[queue_id] = self._live[queue_id][:count], self._live[queue_id][count:]
        self.writer.settle(queue_id, *settled)
        self.commit()

    def purge(self, queue_id: int) -> None:
        """Purge a queue."""
        self._live[queue_id] = []
        self.writer.purge(queue_id)
        self.commit()

    def commit(self) -> None:
        """Commit what was gathered, and note what is held now."""
        with self._committing:
            self.writer.flush()
            self.held[self.buffer.position] = self.contents()

    def _define(self, changes: list[Change]) -> None:
        with self._committing:
            self.definitions.commit(changes)
            self.held[self.buffer.position] = self.contents()

    def contents(self) -> Contents:
        """Contents of both stores at this moment."""
        return contents_of(self.definitions, self.messages)

    def some_step(self, chance: random.Random) -> None:
        """Do anything."""
        queue_id = chance.choice([*self._live, 0])
        if len(self._live) < QUEUES or not queue_id:
            queue_id = self.declare() if len(self._live) < QUEUES else chance.choice([*self._live])
        kind = chance.random()
        if kind < 0.55:
            self.publish(queue_id, *(b"%d" % chance.randrange(1 << 30) for _ in range(chance.randrange(1, 5))))
        elif kind < 0.58:
            self.publish(queue_id, LARGE)
        elif kind < 0.85:
            self.settle(queue_id, chance.randrange(1, 6))
        elif kind < 0.93:
            self.purge(queue_id)
        else:
            self.delete(queue_id)
        if chance.random() < 0.2:
            self._catch_up()


def contents_of(definitions: DefinitionStore, messages: MessageStore) -> Contents:
    """Contents of two open stores: messages of queues that exist, as a recovery brings them back."""
    queues = list(definitions.load().queues)
    return queues, [bodies(messages, queue.id) for queue in queues]


def restored(target: ShipTarget, wanted: Moment, directory: Path) -> tuple[RestoredMoment, Contents]:
    """Restore a moment into a directory, and read what it holds."""
    directory.mkdir()
    files = directory / "messages", directory / "definitions.sqlite"
    moment = restore_moment(target, wanted, *files, lambda _count: nullcontext(lambda _done: None))
    with opened(directory) as contents:
        return moment, contents


@contextmanager
def opened(directory: Path) -> Iterator[Contents]:
    """Open restored stores, and give what they hold."""
    with (
        DefinitionStore.open(directory / "definitions.sqlite", create=False) as definitions,
        MessageStore.open(directory / "messages", store_uuid=definitions.uuid, create=False) as messages,
    ):
        messages.delete_queues(definitions.load().tombstones)
        yield contents_of(definitions, messages)
