"""Changes of definitions on their way to SQLite: gathered while one transaction runs, written in the next."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import trio

from broker.entities.definitions import Definitions
from broker.entities.exchanges import Binding, Exchange
from broker.entities.pending import Pending
from broker.entities.queue import Queue
from broker.wire.constants import ReplyCode
from broker.wire.errors import ConnectionException
from broker.wire.tables import encode_table
from storage.batch import TRANSIENT_QUEUE
from storage.definition_changes import (
    BindingRow,
    Change,
    DeleteBinding,
    DeleteExchange,
    DeleteQueue,
    DropTombstone,
    ExchangeRow,
    PutBinding,
    PutExchange,
    PutQueue,
    QueueRow,
)
from storage.definition_changes import Definitions as StoredDefinitions
from storage.definitions import DefinitionsError, DefinitionStore

log = logging.getLogger("leveret.definitions")

Group = tuple[Sequence[Change], Pending[None]]


class DefinitionLog(Definitions):
    """Writes changes in the order they come, as many in one transaction as have come together."""

    def __init__(self, store: DefinitionStore, highest_queue_id: int) -> None:
        self._store = store
        self._queue_id = highest_queue_id
        self._gathered: list[Group] = []
        self._turn = trio.Lock()
        self._arrived = trio.Event()
        self._limiter = trio.CapacityLimiter(1)
        self.after_commit: Callable[[], None] = _nothing

    def write(self, *changes: Change) -> Pending[None]:
        """Have changes written together; settles when they are on disk."""
        pending: Pending[None] = Pending()
        self._gathered.append((changes, pending))
        self._arrived.set()
        return pending

    def drop_tombstones(self, queue_ids: Sequence[int]) -> None:
        """The message store holds nothing of these deleted queues any more."""
        durable = [queue_id for queue_id in queue_ids if queue_id < TRANSIENT_QUEUE]
        if durable:
            self.write(*map(DropTombstone, durable))

    async def run(self) -> None:
        """Write what comes, until cancelled."""
        while True:
            await self._arrived.wait()
            await self.flush()

    async def flush(self) -> None:
        """Return when everything that has come is written."""
        async with self._turn:
            while self._gathered:
                self._arrived = trio.Event()
                groups, self._gathered = self._gathered, []
                with trio.CancelScope(shield=True):
                    await self._commit(groups)
                self.after_commit()

    async def _commit(self, groups: list[Group]) -> None:
        changes = [change for group, _ in groups for change in group]
        try:
            await trio.to_thread.run_sync(self._store.commit, changes, limiter=self._limiter)
        except DefinitionsError as error:
            if len(groups) > 1:  # find out whose it is
                for group in groups:
                    await self._commit([group])
                return
            log.error("cannot write definitions: %s", error)
            groups[0][1].fail(ConnectionException(ReplyCode.RESOURCE_ERROR, str(error)))
            return
        for _, pending in groups:
            pending.resolve(None)

    async def load(self) -> StoredDefinitions:
        """Everything that is on disk. Raises DefinitionsError."""
        return await trio.to_thread.run_sync(self._store.load, limiter=self._limiter)

    # What the entities ask for

    def new_queue_id(self) -> int:
        self._queue_id += 1
        return self._queue_id

    def exchange_declared(self, vhost: str, exchange: Exchange) -> Pending[None]:
        return self.write(
            PutExchange(
                ExchangeRow(
                    vhost,
                    exchange.name,
                    exchange.type,
                    exchange.auto_delete,
                    exchange.internal,
                    encode_table(exchange.arguments),
                    0 if exchange.delays is None else exchange.delays.lane.queue_id,
                )
            )
        )

    def exchange_deleted(self, vhost: str, exchange: Exchange) -> Pending[None]:
        return self.write(DeleteExchange(vhost, exchange.name))

    def queue_declared(self, vhost: str, queue: Queue) -> Pending[None]:
        spec = queue.spec
        row = QueueRow(queue.lane.queue_id, vhost, spec.name, spec.auto_delete, encode_table(spec.arguments))
        return self.write(PutQueue(row))

    def queue_deleted(self, vhost: str, queue: Queue) -> Pending[None]:
        return self.write(DeleteQueue(queue.lane.queue_id))

    def bound(self, vhost: str, binding: Binding) -> Pending[None]:
        return self.write(PutBinding(_binding_row(vhost, binding)))

    def unbound(self, vhost: str, binding: Binding) -> Pending[None]:
        return self.write(DeleteBinding(_binding_row(vhost, binding)))


def _binding_row(vhost: str, binding: Binding) -> BindingRow:
    kind = "queue" if isinstance(binding.destination, Queue) else "exchange"
    return BindingRow(vhost, binding.source.name, binding.destination.name, kind, binding.key, binding.arguments)


def _nothing() -> None:
    """Nobody wants to know."""
