"""Equivalence of declarations: a second declaration that differs is refused with RabbitMQ's 406."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.entities.arguments import queue_arguments
from broker.entities.arguments.erlang_terms import Atom, printed
from broker.wire.amqp_errors import ChannelException, precondition_failed
from broker.wire.field_tables import Table

if TYPE_CHECKING:
    from broker.entities.arguments.queue_arguments import ArgumentRules
    from broker.entities.exchanges.exchange import Exchange
    from broker.entities.queues.queue import Queue, QueueSpec


def assert_exchange_equivalent(
    exchange: Exchange, vhost: str, type_: str, flags: dict[str, bool], arguments: Table
) -> None:
    """Compare type, flags and alternate exchange, but no other arguments. Raises ChannelException 406."""
    entity = f"exchange '{exchange.name}' in vhost '{vhost}'"
    if exchange.type != type_:
        raise _differs("type", entity, printed(Atom(type_)), printed(Atom(exchange.type)))
    for name, received in flags.items():
        current = getattr(exchange, name)
        if current != received:
            raise _differs(name, entity, _word(received), _word(current))
    alternate = "alternate-exchange"
    was, now = exchange.arguments.get(alternate), arguments.get(alternate)
    if not queue_arguments.same_value(was, now):
        raise queue_arguments.inequivalent(alternate, entity, was, now)


def assert_queue_equivalent(queue: Queue, vhost: str, spec: QueueSpec, rules: ArgumentRules) -> None:
    """Compare durable, auto-delete and the arguments that the queue's type knows. Raises ChannelException 406."""
    entity = f"queue '{queue.name}' in vhost '{vhost}'"
    for name in ("durable", "auto_delete"):
        current, received = getattr(queue.spec, name), getattr(spec, name)
        if current != received:
            raise _differs(name, entity, _word(received), _word(current))
    queue_arguments.assert_equivalent(queue.name, vhost, queue.spec.arguments, spec.arguments, rules)


def _differs(name: str, entity: str, received: str, current: str) -> ChannelException:
    text = f"inequivalent arg '{name}' for {entity}: received '{received}' but current is '{current}'"
    return precondition_failed(text)


def _word(value: bool) -> str:
    return "true" if value else "false"
