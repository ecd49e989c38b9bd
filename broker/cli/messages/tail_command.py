"""`leveret tail`: copies of messages as they are published, without taking any away."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import click

from broker.admin.commands.vhost_admin import ListVhosts, TraceOff, TraceOn
from broker.cli.jobs.amqp_options import broker_options
from broker.cli.messages.amqp_client import AmqpClient, logged_in
from broker.cli.messages.message_output import show_json, show_line
from broker.cli.messages.read_commands import count_option, until_interrupted
from broker.cli.target_broker import Target, json_option, targeted
from broker.cli.usage.command_groups import CommandWithExample
from broker.wire import methods
from broker.wire.field_tables import from_python

FIREHOSE = "amq.rabbitmq.trace"
COPIES_MAX = 10_000
"""Copies that may wait for a slow terminal; beyond it the oldest are dropped."""


@click.command(cls=CommandWithExample, example="amq.topic --key 'orders.#'")
@targeted
@broker_options
@click.argument("exchange", required=False)
@click.option("--key", default="#", show_default=True, metavar="KEY", help="Binding key; default: all messages.")
@count_option
@json_option
def tail(
    target: Target, broker: dict[str, str], exchange: str | None, key: str, count: int | None, as_json: bool
) -> None:
    """Print what is published to EXCHANGE from now on, until ^C; no queue loses anything.

    Without EXCHANGE, everything in the virtual host is printed, published (publish.EXCHANGE) and delivered
    (deliver.QUEUE): tracing is switched on for it, which reduces throughput, and off at the end; on a remote broker it
    has to be on already. --key selects as a binding to the exchange does: fanout takes every key, a direct exchange
    needs the exact one.
    """
    show = show_json if as_json else show_line
    chosen = click.get_current_context().params
    elsewhere = bool(chosen["host"] or chosen["uri"])
    tracing = nullcontext() if exchange is not None or elsewhere else _tracing(target, broker["vhost"])
    with logged_in(broker) as client, until_interrupted(), tracing:
        _watch(client, FIREHOSE if exchange is None else exchange, key)
        click.echo("watching; ^C ends it", err=True)
        shown = 0
        while shown != count:
            message = client.next(None)
            if message is not None and isinstance(message.method, methods.BasicDeliver):
                show(message)
                shown += 1


def _watch(client: AmqpClient, exchange: str, key: str) -> None:
    """Consume from a queue of our own that is bound to the exchange; it ends with the connection."""
    limited = from_python({"x-max-length": COPIES_MAX})
    declare = methods.QueueDeclare("", False, False, True, True, False, limited)
    queue = client.call(declare, methods.QueueDeclareOk).queue
    client.call(methods.QueueBind(queue, exchange, key, False, {}), methods.QueueBindOk)
    client.call(methods.BasicConsume(queue, "", False, True, True, False, {}), methods.BasicConsumeOk)


@contextmanager
def _tracing(target: Target, vhost: str) -> Iterator[None]:
    """The virtual host is traced meanwhile, and afterwards if it was before."""
    rows = target.ask(ListVhosts(columns=["name", "tracing"]))
    traced = any(row["tracing"] for row in rows if row["name"] == vhost)
    target.ask(TraceOn(vhost=vhost))
    try:
        yield
    finally:
        if not traced:
            target.ask(TraceOff(vhost=vhost))
