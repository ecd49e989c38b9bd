"""Classic queues: messages in publish order. The persistent ones of a durable queue are on disk, too."""

from __future__ import annotations

from collections.abc import Sequence

from broker.entities.messages.message import Entry, Message
from broker.entities.queues.ordered_queue import OrderedQueue
from broker.entities.queues.queue_store import QueueStore
from broker.entities.queues.ready_messages import ReadyMessages
from storage.batch import PERSISTENT


class ClassicQueue(OrderedQueue):
    """A queue of type classic, without priorities."""

    store: QueueStore
    ready_messages: ReadyMessages

    def publish(self, message: Message) -> bool:
        """Take a message at the end. True if a confirm of it has to wait for the disk."""
        position = self._position + 1
        durable = self.durable and bool(message.flags & PERSISTENT)
        if self.events is not None:
            position = self.events.arrived((message,), position, kept=durable)
        self._position = position
        limits = self.limits
        expires_at = limits.expires_at(message) if limits.on_time or message.expiration is not None else 0
        entry = Entry(self, position, message, len(message.body), expires_at)
        if durable or self.ready_messages.paging:
            self.store.put(entry, durable=durable)
        self.ready_messages.append(entry)
        if limits.on_length:
            limits.make_room()
        if not self._touched:
            self.touch()
        return durable

    def publish_all(self, messages: Sequence[Message]) -> bool:
        """Take a run of messages at the end: all persistent or none, none with a time to live of its own.

        True if a confirm of them has to wait for the disk.
        """
        if self.limits.on_length:
            return super().publish_all(messages)
        store, ready_messages = self.store, self.ready_messages
        first = self._position + 1
        durable = self.durable and bool(messages[0].flags & PERSISTENT)
        if self.events is not None:
            first = self.events.arrived(messages, first, kept=durable)
        expires_at = self.limits.expires_at(messages[0]) if self.limits.on_time else 0
        entries = [
            Entry(self, position, message, len(message.body), expires_at)
            for position, message in enumerate(messages, first)
        ]
        self._position = first + len(entries) - 1
        if durable or ready_messages.paging:
            store.put_all(entries, durable=durable)
        ready_messages.extend(entries)
        if not self._touched:
            self.touch()
        return durable
