"""Queues, streams, exchanges, bindings and consumers: listed, looked into, declared, bound, purged, deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import structs

from broker.admin.commands.admin_command import AdminChange, LongQuestion, Question, Text, VhostList
from broker.admin.commands.argument_values import table
from broker.admin.protocol import AdministrationError, invalid, not_found

if TYPE_CHECKING:
    from broker.admin.administration import Administration
    from broker.admin.views.listing import View
    from broker.entities.vhosts.vhost import VHost
    from broker.wire.field_tables import Table
    from broker.wire.method import Method


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
        await administration.written(removals=True)
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


# Made by an operator: as a client does that may do anything, with its refusals


class _TopologyChange(AdminChange, kw_only=True):
    """A method of AMQP in a virtual host, and its `arguments`, which are JSON."""

    vhost: Text
    arguments: object = None

    async def send(self, administration: Administration, vhost: VHost, method: Method) -> None:
        """Have the method carried out. Raises AdministrationError `refused` with the text of a client's refusal."""
        from broker.session.direct_session import DirectSession, Refused
        from broker.session.peer import Peer

        peer = Peer("", 0, "", 0, loopback=True)
        session = DirectSession(administration.registry, peer, administration.by, vhost.name, trusted=True)
        try:
            answer = session.ask(method)
            administration.end_turn()
            await administration.settled(answer)
        except Refused as refused:
            raise AdministrationError("refused", refused.explanation) from refused
        finally:
            session.close()

    def amqp_arguments(self) -> Table:
        """Return the arguments as AMQP has them. Raises AdministrationError `invalid`."""
        from broker.wire.field_tables import from_python

        try:
            return from_python(table(self.arguments or {}, "arguments"))
        except (TypeError, OverflowError) as error:
            raise invalid(f"argument arguments: {error}") from None


class DeclareQueue(_TopologyChange):
    """Declare a queue. The answer has `added`: it was not there before."""

    log_words: ClassVar[str] = "queue '{name}' of virtual host '{vhost}' is declared"
    name: Text
    durable: bool = True
    auto_delete: bool = False

    async def apply(self, administration: Administration) -> dict[str, bool]:
        from broker.wire.methods import QueueDeclare

        vhost = administration.vhost(self.vhost)
        if not self.name:
            raise invalid("argument name: is empty")
        added = self.name not in vhost.queues
        arguments = self.amqp_arguments()
        method = QueueDeclare(self.name, False, self.durable, False, self.auto_delete, False, arguments)
        await self.send(administration, vhost, method)
        return {"added": added}

    def log_fields(self) -> dict[str, Any]:
        return {**super().log_fields(), "queue": self.name}


class DeclareExchange(_TopologyChange):
    """Declare an exchange. The answer has `added`: it was not there before."""

    log_words: ClassVar[str] = "exchange '{name}' of virtual host '{vhost}' is declared"
    name: Text
    type: Text = "direct"
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False

    async def apply(self, administration: Administration) -> dict[str, bool]:
        from broker.wire.methods import ExchangeDeclare

        vhost = administration.vhost(self.vhost)
        added = self.name not in vhost.exchanges
        flags = False, self.durable, self.auto_delete, self.internal, False
        await self.send(administration, vhost, ExchangeDeclare(self.name, self.type, *flags, self.amqp_arguments()))
        return {"added": added}


class _BindingChange(_TopologyChange):
    """A change of the binding of a queue, or of an exchange, to an exchange."""

    source: Text
    destination: Text
    key: Text = ""
    to_exchange: bool = False


class AddBinding(_BindingChange):
    """Bind a queue, or an exchange, to an exchange."""

    log_words: ClassVar[str] = "'{destination}' is bound to exchange '{source}' in virtual host '{vhost}'"

    async def apply(self, administration: Administration) -> None:
        from broker.wire.methods import ExchangeBind, QueueBind

        kind = ExchangeBind if self.to_exchange else QueueBind
        method = kind(self.destination, self.source, self.key, False, self.amqp_arguments())
        await self.send(administration, administration.vhost(self.vhost), method)


class DeleteBinding(_BindingChange):
    """Remove a binding; nothing if there is none."""

    log_words: ClassVar[str] = "'{destination}' is unbound from exchange '{source}' in virtual host '{vhost}'"

    async def apply(self, administration: Administration) -> None:
        from broker.wire.methods import ExchangeUnbind, QueueUnbind

        ends, arguments = (self.destination, self.source, self.key), self.amqp_arguments()
        method = ExchangeUnbind(*ends, False, arguments) if self.to_exchange else QueueUnbind(*ends, arguments)
        await self.send(administration, administration.vhost(self.vhost), method)
