"""Durable entities as rows of the definitions store: `DurableDefinitions`, which the entities call."""

from __future__ import annotations

from collections.abc import Callable

from broker.entities.arguments.queue_types import QUORUM, STREAM
from broker.entities.exchanges.exchange import Binding, Exchange
from broker.entities.queues.queue import Queue
from broker.entities.scheduling.future import Future
from broker.server.definition_writer import DefinitionLog
from broker.wire.field_tables import encode_table
from storage.definitions import features
from storage.definitions.definition_rows import BindingRow, ExchangeRow, Put, QueueRow, delete
from storage.definitions.features import uses

_FEATURES = {QUORUM.name: features.QUORUM_QUEUES, STREAM.name: features.STREAMS}
"""Store features of queue types: a version that does not know a used feature must not open the store."""


class DurableRows:
    """Has rows of durable entities written, and deleted, by the log of definitions."""

    def __init__(self, log: DefinitionLog) -> None:
        self._log = log
        self.new_queue_id = log.new_queue_id

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
        return self._log.write(Put(row), *delayed)

    def exchange_deleted(self, vhost: str, exchange: Exchange, gone: Callable[[], None]) -> Future[None]:
        return self._log.erase(delete(ExchangeRow, vhost=vhost, name=exchange.name), gone=gone)

    def queue_declared(self, vhost: str, queue: Queue) -> Future[None]:
        spec = queue.spec
        arguments = encode_table(spec.arguments)
        row = QueueRow(queue.store.queue_id, vhost, spec.name, spec.auto_delete, arguments, spec.declared_by)
        wanted = [_FEATURES[queue.type.name]] if queue.type.name in _FEATURES else []
        if queue.arguments.max_priority is not None:
            wanted.append(features.PRIORITIES)
        return self._log.write(Put(row), *map(uses, wanted))

    def queue_deleted(self, vhost: str, queue: Queue, gone: Callable[[], None]) -> Future[None]:
        return self._log.erase(delete(QueueRow, id=queue.store.queue_id), gone=gone)

    def bound(self, vhost: str, binding: Binding) -> Future[None]:
        return self._log.write(Put(_binding_row(vhost, binding)))

    def unbound(self, vhost: str, binding: Binding) -> Future[None]:
        return self._log.erase(delete(BindingRow, **_binding_row(vhost, binding)._asdict()))


def _binding_row(vhost: str, binding: Binding) -> BindingRow:
    kind = "queue" if isinstance(binding.destination, Queue) else "exchange"
    return BindingRow(vhost, binding.source.name, binding.destination.name, kind, binding.key, binding.arguments)
