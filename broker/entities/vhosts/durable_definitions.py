"""The interface of the definitions store that entities use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from broker.entities.scheduling.future import Future

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.entities.exchanges.exchange import Binding, Exchange
    from broker.entities.queues.queue import Queue


class DurableDefinitions(Protocol):
    """Stores durable entities. Changes reach the disk in the order of the calls.

    Each method returns a future that is settled once the change is on disk, or fails if it cannot be written. A failed
    deletion has taken effect in memory, so it is written again before any later change, once the disk takes it. `gone`
    is called when it is on disk.
    """

    def new_queue_id(self) -> int:
        """Return an id that no durable queue or delay queue has ever had."""

    def exchange_declared(self, vhost: str, exchange: Exchange) -> Future[None]: ...

    def exchange_deleted(self, vhost: str, exchange: Exchange, gone: Callable[[], None]) -> Future[None]:
        """Delete an exchange and its bindings, and leave a tombstone for its delayed messages."""

    def queue_declared(self, vhost: str, queue: Queue) -> Future[None]: ...

    def queue_deleted(self, vhost: str, queue: Queue, gone: Callable[[], None]) -> Future[None]:
        """Delete a queue and its bindings, and leave a tombstone for its messages."""

    def bound(self, vhost: str, binding: Binding) -> Future[None]: ...

    def unbound(self, vhost: str, binding: Binding) -> Future[None]: ...
