"""Exclusive queues of a virtual host: refused to other connections with 405, and deleted with their connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.wire.amqp_errors import ChannelException
from broker.wire.constants import ReplyCode

if TYPE_CHECKING:
    from broker.entities.queues.queue import Queue


class ExclusiveQueues:
    """The exclusive queues of one virtual host, by the connection that owns them."""

    def __init__(self, vhost: str) -> None:
        self._vhost = vhost
        self._owned: dict[object, dict[Queue, None]] = {}

    def add(self, queue: Queue) -> None:
        """Remember a queue if it is exclusive."""
        if queue.owner is not None:
            self._owned.setdefault(queue.owner, {})[queue] = None

    def remove(self, queue: Queue) -> None:
        """Forget a deleted queue; no error if it was not exclusive."""
        self._owned.get(queue.owner, {}).pop(queue, None)

    def take(self, owner: object) -> list[Queue]:
        """Return the queues of a connection that has ended, and forget them."""
        return list(self._owned.pop(owner, ()))

    def clear(self) -> None:
        """Forget all of them: the virtual host is deleted."""
        self._owned.clear()

    def check_use(self, queue: Queue, connection: object) -> None:
        """Raise ChannelException 405 if a queue is exclusive to another connection."""
        if queue.owner is not None and queue.owner is not connection:
            raise self._locked(queue)

    def check_declaration(self, queue: Queue, owner: object | None) -> None:
        """Raise ChannelException 405 if a queue is declared again by another owner, or with another exclusive flag."""
        if queue.owner is not owner:
            raise self._locked(queue)

    def _locked(self, queue: Queue) -> ChannelException:
        return ChannelException(
            ReplyCode.RESOURCE_LOCKED,
            f"cannot obtain exclusive access to locked queue '{queue.name}' in vhost '{self._vhost}'. It could be "
            "originally declared on another connection or the exclusive property value does not match that of the "
            "original declaration.",
        )
