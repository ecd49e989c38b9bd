"""The queue class."""

from __future__ import annotations

from broker.entities.arguments import queue_arguments, queue_types
from broker.entities.exchanges.exchange import Binding
from broker.entities.node.user_limits import MAX_QUEUES
from broker.entities.queues.queue import Queue, QueueSpec
from broker.entities.scheduling.future import Future
from broker.entities.scheduling.pending_batches import OnDisk
from broker.session.channel.channel import Channel
from broker.session.generated_names import generated_name
from broker.session.methods import deprecated_features, name_rules, rehearsed_methods, reply_addresses
from broker.wire import methods
from broker.wire.amqp_errors import ChannelException, ConnectionException
from broker.wire.constants import ReplyCode
from broker.wire.field_tables import Table
from broker.wire.properties import REPLY_TO


def declare(channel: Channel, method: methods.QueueDeclare) -> None:
    """queue.declare."""
    name = name_rules.stripped(method.queue)
    if method.passive or name == REPLY_TO or reply_addresses.is_volatile(channel, name):
        reply_addresses.check_declaration(channel, name)
        _declare_passively(channel, method, name)
        return
    name_rules.not_reserved("queue", name)
    vhost, properties = channel.vhost, _properties(method)
    arguments = vhost.default_type.added(method.arguments, **properties)
    queue_types.check_name(name, arguments)
    name = name or generated_name("amq.gen-")
    channel.access.configure_queue(name)
    if name not in vhost.queues:
        _check_limit(channel, name)
        _check_dead_letter_access(channel, name, arguments)
        personality = channel.connection.settings.personality
        queue_arguments.check(name, vhost.name, arguments, personality.argument_rules)
        deprecated_features.check_new_queue(personality, arguments, durable=method.durable, exclusive=method.exclusive)
        queue_types.check_properties(name, vhost.name, arguments, **properties)
    # An exclusive queue ends with its connection, so it cannot outlast the broker: RabbitMQ makes it transient.
    durable = method.durable and not method.exclusive
    spec = QueueSpec(name, durable, method.exclusive, method.auto_delete, arguments)
    owner = channel.connection if method.exclusive else None
    watch, there = channel.connection.broker.watch, name in vhost.queues
    declared = channel.vhost.declare_queue(spec, owner, channel.connection.user)
    if watch is not None:
        rehearsed_methods.declares(watch, channel, spec, there=there)
    channel.when(declared, lambda queue: _declared(channel, method, queue))


def _properties(method: methods.QueueDeclare) -> dict[str, bool]:
    return {"durable": method.durable, "exclusive": method.exclusive, "auto_delete": method.auto_delete}


def _declared(channel: Channel, method: methods.QueueDeclare, queue: Queue) -> None:
    channel.last_queue = queue.name
    channel.send(_declare_ok(queue), no_wait=method.no_wait)


def _check_limit(channel: Channel, name: str) -> None:
    vhost = channel.vhost
    highest, all_queues = channel.connection.settings.queues_max, channel.connection.broker.queues_by_id
    if highest and len(all_queues) >= highest:  # RabbitMQ's cluster_queue_limit, since 3.13
        text = f"cannot declare queue '{name}': queue limit in cluster ({highest}) is reached"
        raise ChannelException(ReplyCode.PRECONDITION_FAILED, text)
    limit = channel.connection.broker.user_limits.vhost_reached(vhost.name, MAX_QUEUES, vhost.queues.__len__)
    if limit is not None:
        text = f"cannot declare queue '{name}': queue limit in vhost '{vhost.name}' ({limit}) is reached"
        raise ChannelException(ReplyCode.PRECONDITION_FAILED, text)


def _declare_passively(channel: Channel, method: methods.QueueDeclare, name: str) -> None:
    if name.startswith(REPLY_TO):
        _declare_reply_queue(channel, method, name)
        return
    channel.access.know_queue(name)
    queue = channel.vhost.queue(name, channel.connection)
    queue.use()
    if (watch := channel.connection.broker.watch) is not None:
        rehearsed_methods.declares_passively(watch, channel, "queue", name)
    channel.last_queue = queue.name
    channel.send(_declare_ok(queue), no_wait=method.no_wait)


def _declare_reply_queue(channel: Channel, method: methods.QueueDeclare, name: str) -> None:
    """Answer a passive declaration of a reply address: does the requester of a direct reply still exist?"""
    if name != REPLY_TO and name not in channel.connection.reply_channels:
        text = f"no queue '{name}' in vhost '{channel.vhost.name}'"
        raise ChannelException(ReplyCode.NOT_FOUND, text)
    channel.send(methods.QueueDeclareOk(name, 0, 1), no_wait=method.no_wait)


def _declare_ok(queue: Queue) -> methods.QueueDeclareOk:
    queue.deliver_now()
    return methods.QueueDeclareOk(queue.name, queue.ready, len(queue.consumers))


def _check_dead_letter_access(channel: Channel, name: str, arguments: Table) -> None:
    dead_letters = arguments.get("x-dead-letter-exchange")
    if dead_letters is not None and dead_letters.kind == "S":
        channel.access.read_queue(name)
        channel.access.write_exchange(dead_letters.value.decode("utf-8", "surrogateescape"))


def bind(channel: Channel, method: methods.QueueBind) -> None:
    """queue.bind."""
    binding = _binding(channel, method)
    bound = channel.vhost.bindings.bind(binding, method.arguments, channel.connection.user)
    if (watch := channel.connection.broker.watch) is not None:
        rehearsed_methods.binds(watch, channel, binding)
    channel.when(bound, lambda _: channel.send(methods.QueueBindOk(), no_wait=method.no_wait))


def unbind(channel: Channel, method: methods.QueueUnbind) -> None:
    """queue.unbind; a queue or exchange that does not exist is no error, as in RabbitMQ."""
    vhost = channel.vhost
    name, _ = _name_and_key(channel, method)
    name_rules.not_default_exchange(method.exchange)
    reply_addresses.check_binding(channel, name)
    channel.access.write_queue(name)
    channel.access.read_exchange(method.exchange)
    if name not in vhost.queues or method.exchange not in vhost.exchanges:
        channel.send(methods.QueueUnbindOk())
        return
    unbound = vhost.bindings.unbind(_binding(channel, method), channel.connection.user)
    channel.when(unbound, lambda _: channel.send(methods.QueueUnbindOk()))


def _binding(channel: Channel, method: methods.QueueBind | methods.QueueUnbind) -> Binding:
    name, key = _name_and_key(channel, method)
    name_rules.not_default_exchange(method.exchange)
    reply_addresses.check_binding(channel, name)
    channel.access.write_queue(name)
    channel.access.read_exchange(method.exchange)
    exchange = channel.vhost.exchange(method.exchange)
    queue = channel.vhost.queue(name, channel.connection)
    channel.access.topic(exchange, "read", key)
    return exchange.binding(queue, key, method.arguments)


def _name_and_key(channel: Channel, method: methods.QueueBind | methods.QueueUnbind) -> tuple[str, str]:
    """Return queue and key. No name means the queue declared last; no key with it means its name (queue.bind)."""
    if method.queue:
        return method.queue, method.routing_key
    name = current_queue(channel, "")
    return name, method.routing_key or name


def purge(channel: Channel, method: methods.QueuePurge) -> None:
    """queue.purge: drops ready messages, not unacknowledged ones; answered when that is on disk."""
    name = current_queue(channel, method.queue)
    channel.access.read_queue(name)
    if reply_addresses.is_taken(channel, name):
        channel.send(methods.QueuePurgeOk(0), no_wait=method.no_wait)
        return
    queue = channel.vhost.queue(name, channel.connection)
    queue.deliver_now()
    count = queue.purge()
    batches = channel.connection.broker.batches
    purged = OnDisk(batches, removal=True) if queue.durable else Future.resolved(None)
    channel.when(purged, lambda _: channel.send(methods.QueuePurgeOk(count), no_wait=method.no_wait))


def delete(channel: Channel, method: methods.QueueDelete) -> None:
    """queue.delete; a queue that does not exist is no error, as in RabbitMQ since 3.2."""
    name = current_queue(channel, name_rules.stripped(method.queue))
    channel.access.configure_queue(name)
    if name not in channel.vhost.queues:
        channel.send(methods.QueueDeleteOk(0), no_wait=method.no_wait)
        return
    queue = channel.vhost.queue(name, channel.connection)
    where = f"queue '{name}' in vhost '{channel.vhost.name}'"
    if queue.type is queue_types.QUORUM:
        _check_unconditional(method, where)
    queue.deliver_now()
    if method.if_unused and len(queue.consumers):
        raise ChannelException(ReplyCode.PRECONDITION_FAILED, f"{where} in use")
    if method.if_empty and queue.ready:
        raise ChannelException(ReplyCode.PRECONDITION_FAILED, f"{where} not empty")
    deleted = channel.vhost.delete_queue(queue, channel.connection.user)
    channel.when(deleted, lambda count: channel.send(methods.QueueDeleteOk(count), no_wait=method.no_wait))


def _check_unconditional(method: methods.QueueDelete, where: str) -> None:
    for flag, present in (("if-unused", method.if_unused), ("if-empty", method.if_empty)):
        if present:
            text = f"queue.delete operations with {flag} flag set are not supported by quorum queues"
            raise ConnectionException(ReplyCode.NOT_IMPLEMENTED, f"cannot delete {where}. {text}")


def current_queue(channel: Channel, name: str) -> str:
    """Return the queue that a method names, or the one declared last on the channel if the name is empty.

    Raises ChannelException 404 if none was declared.
    """
    if name:
        return name
    if not channel.last_queue:
        raise ChannelException(ReplyCode.NOT_FOUND, "no previously declared queue")
    return channel.last_queue
