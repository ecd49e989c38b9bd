"""Definitions kept in dictionaries: the other implementation of what the entities ask for, beside SQLite's."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from broker.entities.exchanges.exchange import Binding, Exchange
from broker.entities.queues.queue import Queue, QueueSpec
from broker.entities.scheduling.future import Future
from broker.entities.vhosts.vhost import VHost
from broker.wire.field_tables import Table, decode_table


class ExchangeRecord(NamedTuple):
    """A durable exchange as it was declared."""

    type: str
    auto_delete: bool
    internal: bool
    arguments: Table
    queue_id: int


class BindingRecord(NamedTuple):
    """A durable binding by the names of its ends."""

    source: str
    destination: str
    to_queue: bool
    key: str
    arguments: bytes


class RecordedDefinitions:
    """Durable entities of one virtual host. A change holds at once, or while `holding`, when `settle` is called."""

    def __init__(self) -> None:
        self.queues: dict[int, QueueSpec] = {}
        self.exchanges: dict[str, ExchangeRecord] = {}
        self.bindings: dict[BindingRecord, None] = {}
        self.deleted_queues: set[int] = set()
        self.holding = False
        self.changes = 0
        self._queue_id = 0
        self._held: deque[tuple[Callable[[], object], Future[None], Callable[[], None] | None]] = deque()

    def settle(self, error: Exception | None = None) -> None:
        """Let the oldest change that is held reach the disk, or fail with an error; a failed deletion is held again."""
        change, pending, gone = self._held.popleft()
        if error is not None:
            if gone is not None:
                self._held.appendleft((change, Future(), gone))
            pending.fail(error)
            return
        change()
        if gone is not None:
            gone()
        pending.resolve(None)

    @property
    def held(self) -> int:
        """Number of changes that wait for `settle`."""
        return len(self._held)

    def restore(self, vhost: VHost, states: Callable[[int], object]) -> None:
        """Bring everything recorded back in a new virtual host; `states` finds a queue's counters."""
        for name, exchange in self.exchanges.items():
            vhost.restore_exchange(
                name,
                exchange.type,
                auto_delete=exchange.auto_delete,
                internal=exchange.internal,
                arguments=exchange.arguments,
                queue_id=exchange.queue_id,
                states=states(exchange.queue_id),  # type: ignore[arg-type]
            )
        for queue_id, spec in self.queues.items():
            vhost.restore_queue(spec, queue_id, states(queue_id))  # type: ignore[arg-type]
        for record in self.bindings:
            destination = (vhost.queues if record.to_queue else vhost.exchanges)[record.destination]
            arguments = decode_table(record.arguments)[0]
            source = vhost.exchanges[record.source]
            vhost.bindings.add(source.binding(destination, record.key, arguments), arguments)

    # What the entities ask for

    def new_queue_id(self) -> int:
        self._queue_id += 1
        return self._queue_id

    def exchange_declared(self, vhost: str, exchange: Exchange) -> Future[None]:
        queue_id = 0 if exchange.delays is None else exchange.delays.store.queue_id
        record = ExchangeRecord(exchange.type, exchange.auto_delete, exchange.internal, exchange.arguments, queue_id)
        return self._do(lambda: self.exchanges.__setitem__(exchange.name, record))

    def exchange_deleted(self, vhost: str, exchange: Exchange, gone: Callable[[], None]) -> Future[None]:
        return self._do(lambda: self._drop_exchange(exchange.name), gone)

    def queue_declared(self, vhost: str, queue: Queue) -> Future[None]:
        return self._do(lambda: self.queues.__setitem__(queue.store.queue_id, queue.spec))

    def queue_deleted(self, vhost: str, queue: Queue, gone: Callable[[], None]) -> Future[None]:
        return self._do(lambda: self._drop_queue(queue.store.queue_id), gone)

    def bound(self, vhost: str, binding: Binding) -> Future[None]:
        return self._do(lambda: self.bindings.__setitem__(_record(binding), None))

    def unbound(self, vhost: str, binding: Binding) -> Future[None]:
        return self._do(lambda: self.bindings.pop(_record(binding), None), _nothing)

    def _do(self, change: Callable[[], object], gone: Callable[[], None] | None = None) -> Future[None]:
        self.changes += 1
        pending: Future[None] = Future()
        self._held.append((change, pending, gone))
        if not self.holding:
            self.settle()
        return pending

    def _drop_exchange(self, name: str) -> None:
        exchange = self.exchanges.pop(name, None)
        if exchange is not None and exchange.queue_id:
            self.deleted_queues.add(exchange.queue_id)
        self.bindings = {
            binding: None
            for binding in self.bindings
            if binding.source != name and (binding.to_queue or binding.destination != name)
        }

    def _drop_queue(self, queue_id: int) -> None:
        name = self.queues.pop(queue_id).name
        self.deleted_queues.add(queue_id)
        self.bindings = {
            binding: None for binding in self.bindings if not binding.to_queue or binding.destination != name
        }


def _record(binding: Binding) -> BindingRecord:
    to_queue = isinstance(binding.destination, Queue)
    return BindingRecord(binding.source.name, binding.destination.name, to_queue, binding.key, binding.arguments)


def _nothing() -> None:
    """Nothing is left of it."""
