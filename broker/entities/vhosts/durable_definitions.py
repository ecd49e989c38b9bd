"""The interface of the definitions store that entities use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from broker.entities.scheduling.future import Future

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.entities.exchanges.exchange import Binding, Exchange
    from broker.entities.queues.queue import Queue


class DurableDefinitions(Protocol):
    """Keeps durable entities. Changes reach the disk in the order they are made here.

    Each method answers with a future that settles once the change is on disk, or fails when it cannot be written.
    A deletion that failed is written nevertheless, before any later change, as soon as the disk takes it: in memory
    it has taken effect. `gone` is called when it is on disk at last.
    """

    def new_queue_id(self) -> int:
        """A number no durable queue has had, and no exchange for its delayed messages."""

    def exchange_declared(self, vhost: str, exchange: Exchange) -> Future[None]: ...

    def exchange_deleted(self, vhost: str, exchange: Exchange, gone: Callable[[], None]) -> Future[None]:
        """With it go its bindings; what the message store holds of delayed messages is remembered for removal."""

    def queue_declared(self, vhost: str, queue: Queue) -> Future[None]: ...

    def queue_deleted(self, vhost: str, queue: Queue, gone: Callable[[], None]) -> Future[None]:
        """With it go its bindings; what the message store holds of it is remembered for removal."""

    def bound(self, vhost: str, binding: Binding) -> Future[None]: ...

    def unbound(self, vhost: str, binding: Binding) -> Future[None]: ...
