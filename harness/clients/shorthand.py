"""Methods with the arguments a test does not care about left out. Pure constructors: each returns the method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker.wire.field_tables import from_python
from broker.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicQos,
    BasicReject,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueueUnbind,
)

Arguments = Mapping[str, Any] | None


def queue_declare(
    queue: str = "",
    *,
    passive: bool = False,
    durable: bool = False,
    exclusive: bool = False,
    auto_delete: bool = False,
    no_wait: bool = False,
    arguments: Arguments = None,
) -> QueueDeclare:
    return QueueDeclare(queue, passive, durable, exclusive, auto_delete, no_wait, from_python(arguments or {}))


def queue_delete(queue: str, *, if_unused: bool = False, if_empty: bool = False, no_wait: bool = False) -> QueueDelete:
    return QueueDelete(queue, if_unused, if_empty, no_wait)


def queue_bind(
    queue: str, exchange: str, key: str = "", *, no_wait: bool = False, arguments: Arguments = None
) -> QueueBind:
    return QueueBind(queue, exchange, key, no_wait, from_python(arguments or {}))


def queue_unbind(queue: str, exchange: str, key: str = "", *, arguments: Arguments = None) -> QueueUnbind:
    return QueueUnbind(queue, exchange, key, from_python(arguments or {}))


def exchange_declare(
    exchange: str,
    kind: str = "direct",
    *,
    passive: bool = False,
    durable: bool = False,
    auto_delete: bool = False,
    internal: bool = False,
    no_wait: bool = False,
    arguments: Arguments = None,
) -> ExchangeDeclare:
    return ExchangeDeclare(
        exchange, kind, passive, durable, auto_delete, internal, no_wait, from_python(arguments or {})
    )


def exchange_delete(exchange: str, *, if_unused: bool = False, no_wait: bool = False) -> ExchangeDelete:
    return ExchangeDelete(exchange, if_unused, no_wait)


def exchange_bind(
    destination: str, source: str, key: str = "", *, no_wait: bool = False, arguments: Arguments = None
) -> ExchangeBind:
    return ExchangeBind(destination, source, key, no_wait, from_python(arguments or {}))


def exchange_unbind(destination: str, source: str, key: str = "", *, arguments: Arguments = None) -> ExchangeUnbind:
    return ExchangeUnbind(destination, source, key, False, from_python(arguments or {}))


def consume(
    queue: str,
    tag: str = "",
    *,
    no_local: bool = False,
    no_ack: bool = False,
    exclusive: bool = False,
    no_wait: bool = False,
    arguments: Arguments = None,
) -> BasicConsume:
    return BasicConsume(queue, tag, no_local, no_ack, exclusive, no_wait, from_python(arguments or {}))


def get(queue: str, *, no_ack: bool = False) -> BasicGet:
    return BasicGet(queue, no_ack)


def ack(tag: int, *, multiple: bool = False) -> BasicAck:
    return BasicAck(tag, multiple)


def reject(tag: int, *, requeue: bool = True) -> BasicReject:
    return BasicReject(tag, requeue)


def nack(tag: int, *, multiple: bool = False, requeue: bool = True) -> BasicNack:
    return BasicNack(tag, multiple, requeue)


def prefetch(count: int, *, of_channel: bool = False, size: int = 0) -> BasicQos:
    return BasicQos(size, count, of_channel)
