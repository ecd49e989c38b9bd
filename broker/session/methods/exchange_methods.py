"""The exchange class, with RabbitMQ's exchange-to-exchange bindings."""

from __future__ import annotations

from broker.entities.exchanges.exchange import Exchange
from broker.entities.exchanges.exchange_type_table import ROUTERS
from broker.session.channel.channel import Channel
from broker.session.methods import name_rules, rehearsed_methods
from broker.wire import methods
from broker.wire.amqp_errors import ChannelException, ConnectionException
from broker.wire.constants import ReplyCode
from broker.wire.field_tables import TYPE_NAMES, Table


def declare(channel: Channel, method: methods.ExchangeDeclare) -> None:
    """exchange.declare."""
    name = name_rules.stripped(method.exchange)
    name_rules.not_default_exchange(name)
    if method.passive:
        channel.access.know_exchange(name)
        channel.vhost.exchange(name)
        if (watch := channel.connection.broker.watch) is not None:
            rehearsed_methods.declares_passively(watch, channel, "exchange", name)
        channel.send(methods.ExchangeDeclareOk(), no_wait=method.no_wait)
        return
    _check_type(channel, method.type)
    channel.access.configure_exchange(name)
    _check_alternate(channel, name, method.arguments)
    if name not in channel.vhost.exchanges:
        name_rules.not_reserved("exchange", name)
        _check_limit(channel, name)
    declared = channel.vhost.declare_exchange(
        name,
        method.type,
        durable=method.durable,
        auto_delete=method.auto_delete,
        internal=method.internal,
        arguments=method.arguments,
        by=channel.connection.user,
    )
    channel.when(declared, lambda _: channel.send(methods.ExchangeDeclareOk(), no_wait=method.no_wait))


def delete(channel: Channel, method: methods.ExchangeDelete) -> None:
    """exchange.delete; one that does not exist is no error, as in RabbitMQ since 3.2."""
    name = name_rules.stripped(method.exchange)
    name_rules.not_default_exchange(name)
    name_rules.not_system_exchange(name, channel.vhost.name)
    channel.access.configure_exchange(name)
    exchange = channel.vhost.exchanges.get(name)
    ok = methods.ExchangeDeleteOk()
    if exchange is None:
        channel.send(ok, no_wait=method.no_wait)
        return
    if method.if_unused and exchange.bindings:
        text = f"exchange '{name}' in vhost '{channel.vhost.name}' in use"
        raise ChannelException(ReplyCode.PRECONDITION_FAILED, text)
    deleted = channel.vhost.delete_exchange(exchange, channel.connection.user)
    channel.when(deleted, lambda _: channel.send(ok, no_wait=method.no_wait))


def bind(channel: Channel, method: methods.ExchangeBind) -> None:
    """exchange.bind."""
    _check_binding_access(channel, method)
    source, destination = _both_ends(channel, method)
    binding = source.binding(destination, method.routing_key, method.arguments)
    ok = methods.ExchangeBindOk()
    bound = channel.vhost.bindings.bind(binding, method.arguments, channel.connection.user)
    if (watch := channel.connection.broker.watch) is not None:
        rehearsed_methods.binds(watch, channel, binding)
    channel.when(bound, lambda _: channel.send(ok, no_wait=method.no_wait))


def unbind(channel: Channel, method: methods.ExchangeUnbind) -> None:
    """exchange.unbind; a binding or exchange that does not exist is no error."""
    ok = methods.ExchangeUnbindOk()
    _check_binding_access(channel, method)
    if not {method.source, method.destination} <= channel.vhost.exchanges.keys():
        channel.send(ok, no_wait=method.no_wait)
        return
    source, destination = _both_ends(channel, method)
    binding = source.binding(destination, method.routing_key, method.arguments)
    unbound = channel.vhost.bindings.unbind(binding, channel.connection.user)
    channel.when(unbound, lambda _: channel.send(ok, no_wait=method.no_wait))


def _check_binding_access(channel: Channel, method: methods.ExchangeBind | methods.ExchangeUnbind) -> None:
    name_rules.not_default_exchange(method.destination)
    name_rules.not_default_exchange(method.source)
    channel.access.write_exchange(method.destination)
    channel.access.read_exchange(method.source)


def _both_ends(channel: Channel, method: methods.ExchangeBind | methods.ExchangeUnbind) -> tuple[Exchange, Exchange]:
    source, destination = channel.vhost.exchange(method.source), channel.vhost.exchange(method.destination)
    channel.access.topic(source, "read", method.routing_key)
    return source, destination


def _check_limit(channel: Channel, name: str) -> None:
    """Check `limits.exchanges_max`, RabbitMQ's cluster_exchange_limit since 4.1."""
    limit, vhosts = channel.connection.settings.exchanges_max, channel.connection.broker.vhosts
    if limit and sum(len(vhost.exchanges) for vhost in vhosts.values()) >= limit:
        text = f"cannot declare exchange '{name}' in vhost '{channel.vhost.name}': exchange limit of {limit} is reached"
        raise ChannelException(ReplyCode.PRECONDITION_FAILED, text)


def _check_type(channel: Channel, type_: str) -> None:
    if type_ in ROUTERS:
        return
    text = f"unknown exchange type '{type_}'"
    if channel.connection.settings.personality.exchange_type_406:
        raise ChannelException(ReplyCode.PRECONDITION_FAILED, text)
    raise ConnectionException(ReplyCode.COMMAND_INVALID, text)


def _check_alternate(channel: Channel, name: str, arguments: Table) -> None:
    alternate = arguments.get("alternate-exchange")
    if alternate is None:
        return
    where = f"'alternate-exchange' in exchange '{name}' in vhost '{channel.vhost.name}'"
    if alternate.kind != "S":
        text = f"invalid type '{TYPE_NAMES[alternate.kind]}' for arg {where}"
        raise ChannelException(ReplyCode.PRECONDITION_FAILED, text)
    channel.access.read_exchange(name)
    channel.access.write_exchange(alternate.value.decode("utf-8", "surrogateescape"))
