"""Writes changes of definitions to SQLite: those that arrive during one transaction are written in the next.

A change that cannot be written fails for its client alone. A creation is then dropped. A deletion
has taken effect in memory already: it is *owed* to the disk, and tried again before every later change until it is
written. So a freed name can be used again, and no change overtakes a deletion.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import trio

from broker.entities.arguments.queue_types import QUORUM, STREAM
from broker.entities.exchanges.exchange import Binding, Exchange
from broker.entities.queues.events.event_recording import Recorder
from broker.entities.queues.queue import Queue
from broker.entities.scheduling.future import Future
from broker.wire.amqp_errors import ConnectionException
from broker.wire.constants import ReplyCode
from broker.wire.field_tables import encode_table
from storage.batch import TRANSIENT_QUEUE
from storage.definitions import features
from storage.definitions.definition_rows import (
    BindingRow,
    Change,
    Definitions,
    DropTombstone,
    ExchangeRow,
    Put,
    QueueRow,
    delete,
)
from storage.definitions.definition_store import DefinitionsError, DefinitionStore
from storage.definitions.features import uses

log = logging.getLogger("leveret.definitions")

RETRY_SECONDS = 1.0

_FEATURES = {QUORUM.name: features.QUORUM_QUEUES, STREAM.name: features.STREAMS}
"""Store features of queue types: a version that does not know a used feature must not open the store."""


class ChangeGroup(NamedTuple):
    """Changes that are written together or not at all, and the future that is resolved when they are on disk.

    `owed`: they are deletions, to be tried again if they cannot be written. `gone` is called when they are on disk.
    """

    changes: Sequence[Change]
    future: Future[None]
    owed: bool = False
    gone: Callable[[], None] | None = None


class DefinitionLog:
    """Writes changes of definitions in order, in one transaction all that have arrived.

    `wake` is called after each transaction: connections may have answers to send. `recorder`: that of the event log.
    """

    def __init__(
        self,
        store: DefinitionStore,
        highest_queue_id: int,
        wake: Callable[[], None],
        recorder: Recorder | None = None,
    ) -> None:
        self._store = store
        self._wake = wake
        self._recorder = recorder
        self._queue_id = highest_queue_id
        self._waiting: list[ChangeGroup] = []
        self._owed: list[ChangeGroup] = []
        self._writing = trio.Lock()
        self._arrived = trio.Event()
        self._limiter = trio.CapacityLimiter(1)

    def write(self, *changes: Change) -> Future[None]:
        """Write changes together; the future is resolved when they are on disk."""
        return self._add(ChangeGroup(changes, Future()))

    def erase(self, *deletions: Change, gone: Callable[[], None] | None = None) -> Future[None]:
        """Write deletions, and try again if that fails; `gone` is called when they are on disk."""
        return self._add(ChangeGroup(deletions, Future(), True, gone))

    def _add(self, group: ChangeGroup) -> Future[None]:
        self._waiting.append(group)
        self._arrived.set()
        return group.future

    def drop_tombstones(self, queue_ids: Sequence[int]) -> None:
        """Drop the tombstones of deleted queues of which the message store holds nothing any more."""
        durable = [queue_id for queue_id in queue_ids if queue_id < TRANSIENT_QUEUE]
        if durable:
            self.erase(*map(DropTombstone, durable))

    async def run(self) -> None:
        """Write changes as they arrive, and owed deletions every RETRY_SECONDS, until cancelled."""
        while True:
            with trio.move_on_after(RETRY_SECONDS if self._owed else math.inf):
                await self._arrived.wait()
            await self.flush()

    async def flush(self) -> None:
        """Return when all changes are written, and owed deletions have been tried once more."""
        async with self._writing:
            owing = bool(self._owed)
            while self._waiting or owing:
                owing = False
                self._arrived = trio.Event()
                groups, self._waiting = self._waiting, []
                with trio.CancelScope(shield=True):
                    await self._commit(groups)
                self._wake()

    async def _commit(self, groups: list[ChangeGroup]) -> None:
        written = [*self._owed, *groups]
        changes = [change for group in written for change in group.changes]
        if self._recorder is not None:
            self._recorder.flush()  # a queue's end must be in the event log before it is on disk
        try:
            await trio.to_thread.run_sync(self._store.commit, changes, limiter=self._limiter)
        except DefinitionsError as error:
            if len(groups) > 1:  # each alone, so that only the one at fault fails
                for group in groups:
                    await self._commit([group])
                return
            for group in groups:
                self._fail(group, error)
            return
        self._settle_debts()
        for group in groups:
            if group.gone is not None:
                group.gone()
            group.future.resolve(None)

    def _fail(self, group: ChangeGroup, error: DefinitionsError) -> None:
        log.error("cannot write definitions: %s", error)
        if group.owed:
            self._owed.append(group)
        group.future.fail(ConnectionException(ReplyCode.RESOURCE_ERROR, str(error)))

    def _settle_debts(self) -> None:
        """Forget the owed deletions, which have just been written with the others."""
        owed, self._owed = self._owed, []
        for group in owed:
            if group.gone is not None:
                group.gone()
        if owed:
            log.warning("%d deletions that could not be written are on disk now", len(owed))

    async def load(self) -> Definitions:
        """Return all definitions on disk. Raises DefinitionsError."""
        return await trio.to_thread.run_sync(self._store.load, limiter=self._limiter)

    # Called by entities: `DurableDefinitions`

    def lift_queue_id(self, highest: int) -> None:
        """Give new queues ids above this one: it is in the store already."""
        self._queue_id = max(self._queue_id, highest)

    def new_queue_id(self) -> int:
        self._queue_id += 1
        assert self._queue_id < TRANSIENT_QUEUE, f"queue id {self._queue_id} is in the range of transient queues"
        return self._queue_id

    def exchange_declared(self, vhost: str, exchange: Exchange) -> Future[None]:
        row = ExchangeRow(
            vhost,
            exchange.name,
            exchange.type,
            exchange.auto_delete,
            exchange.internal,
            encode_table(exchange.arguments),
            0 if exchange.delays is None else exchange.delays.store.queue_id,
            exchange.declared_by,
        )
        delayed = [] if exchange.delays is None else [uses(features.DELAYED_MESSAGES)]
        return self.write(Put(row), *delayed)

    def exchange_deleted(self, vhost: str, exchange: Exchange, gone: Callable[[], None]) -> Future[None]:
        return self.erase(delete(ExchangeRow, vhost=vhost, name=exchange.name), gone=gone)

    def queue_declared(self, vhost: str, queue: Queue) -> Future[None]:
        spec = queue.spec
        arguments = encode_table(spec.arguments)
        row = QueueRow(queue.store.queue_id, vhost, spec.name, spec.auto_delete, arguments, spec.declared_by)
        wanted = [_FEATURES[queue.type.name]] if queue.type.name in _FEATURES else []
        if queue.arguments.max_priority is not None:
            wanted.append(features.PRIORITIES)
        return self.write(Put(row), *map(uses, wanted))

    def queue_deleted(self, vhost: str, queue: Queue, gone: Callable[[], None]) -> Future[None]:
        return self.erase(delete(QueueRow, id=queue.store.queue_id), gone=gone)

    def bound(self, vhost: str, binding: Binding) -> Future[None]:
        return self.write(Put(_binding_row(vhost, binding)))

    def unbound(self, vhost: str, binding: Binding) -> Future[None]:
        return self.erase(delete(BindingRow, **_binding_row(vhost, binding)._asdict()))


def _binding_row(vhost: str, binding: Binding) -> BindingRow:
    kind = "queue" if isinstance(binding.destination, Queue) else "exchange"
    return BindingRow(vhost, binding.source.name, binding.destination.name, kind, binding.key, binding.arguments)
