"""Queues, streams, exchanges, bindings and consumers: listed, looked into, purged, deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import structs

from broker.admin.commands.admin_command import AdminChange, LongQuestion, Question, Text, VhostList
from broker.admin.protocol import AdministrationError, invalid, not_found

if TYPE_CHECKING:
    from broker.admin.administration import Administration
    from broker.admin.views.listing import View


class ListQueues(VhostList):
    """List queues."""

    def view(self) -> View:
        from broker.admin.views.queue_view import QUEUES

        return QUEUES


class ListExchanges(VhostList):
    """List exchanges."""

    def view(self) -> View:
        from broker.admin.views.topology_view import EXCHANGES

        return EXCHANGES


class ListBindings(VhostList):
    """List bindings, those to the default exchange included."""

    def view(self) -> View:
        from broker.admin.views.topology_view import BINDINGS

        return BINDINGS


class ListConsumers(VhostList):
    """List consumers."""

    def view(self) -> View:
        from broker.admin.views.topology_view import CONSUMERS

        return CONSUMERS


class StreamStatus(Question):
    """Show a stream's offsets, its number of readers and of segments."""

    vhost: Text
    name: Text

    def answer(self, administration: Administration) -> dict[str, int]:
        from broker.entities.queues.streams.stream_queue import Stream

        queue = administration.queue(self.vhost, self.name)
        if not isinstance(queue, Stream):
            raise invalid(f"queue '{queue.name}' is no stream")
        log = queue.log
        offsets = {"offset": log.next - 1, "committed_offset": log.stored - 1, "first_offset": log.first}
        return {**offsets, "readers": len(queue.consumers), "segments": len(log.segments)}


class PeekQueue(LongQuestion):
    """Look at messages of a queue from number `offset` on; nothing changes. The answer is a `PeekPage`.

    Those in this `state`, ready or unacknowledged, with this `routing_key`, and with this `header`: a name, or
    `NAME:VALUE`. Bodies are cut to `truncate` bytes.
    """

    vhost: Text
    name: Text
    offset: int = 0
    count: int | None = None
    truncate: int | None = None
    encoding: str = "auto"
    routing_key: Text | None = None
    header: Text | None = None
    state: str = "ready"

    async def answer(self, administration: Administration) -> dict[str, Any]:
        from broker.admin.messages import queue_peek

        queue = administration.queue(self.vhost, self.name)
        page = await queue_peek.peek(queue, queue_peek.checked(structs.asdict(self)))
        return page._asdict()


class _QueueChange(AdminChange):
    """A change of one queue."""

    vhost: Text
    name: Text

    def log_fields(self) -> dict[str, Any]:
        return {**super().log_fields(), "queue": self.name}


class DeleteQueue(_QueueChange):
    """Delete a queue. Answers with the number of ready messages deleted with it.

    Raises AdministrationError `refused` with `if_unused` for one with consumers, with `if_empty` for one with messages.
    """

    log_words: ClassVar[str] = "queue '{name}' of virtual host '{vhost}' is deleted"
    if_unused: bool | None = None
    if_empty: bool | None = None

    async def apply(self, administration: Administration) -> dict[str, int]:
        vhost = administration.vhost(self.vhost)
        queue = administration.queue(vhost.name, self.name)
        if self.if_unused and len(queue.consumers):
            raise AdministrationError("refused", f"queue '{queue.name}' in vhost '{vhost.name}' in use")
        if self.if_empty and queue.ready:
            raise AdministrationError("refused", f"queue '{queue.name}' in vhost '{vhost.name}' not empty")
        return {"messages": await administration.settled(vhost.delete_queue(queue, administration.by))}


class PurgeQueue(_QueueChange):
    """Delete a queue's ready messages, from disk too. Answers with their number."""

    log_words: ClassVar[str] = "queue '{name}' of virtual host '{vhost}' is purged"

    async def apply(self, administration: Administration) -> dict[str, int]:
        messages = administration.queue(self.vhost, self.name).purge()
        await administration.written()
        return {"messages": messages}


class DeleteExchange(AdminChange):
    """Delete an exchange with its bindings. Raises AdministrationError `refused` for a pre-declared one."""

    log_words: ClassVar[str] = "exchange '{name}' of virtual host '{vhost}' is deleted"
    vhost: Text
    name: Text

    async def apply(self, administration: Administration) -> None:
        vhost, name = administration.vhost(self.vhost), self.name
        exchange = vhost.exchanges.get(name)
        if exchange is None:
            raise not_found(f"no exchange '{name}' in vhost '{vhost.name}'")
        if not name or name.startswith("amq."):
            raise AdministrationError("refused", f"exchange name '{name}' contains reserved prefix 'amq.*'")
        await administration.settled(vhost.delete_exchange(exchange, administration.by))
