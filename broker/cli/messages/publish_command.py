"""`leveret publish`: a message, or one for each line."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

import click

from broker.admin.json_input.strict_json import decode_json
from broker.cli.jobs.amqp_options import broker_options
from broker.cli.messages.amqp_client import logged_in
from broker.cli.messages.confirmed_publishes import Publisher
from broker.cli.table_output import counted, done
from broker.cli.target_broker import Target, targeted
from broker.cli.usage.command_groups import CommandWithExample
from broker.wire import methods
from broker.wire.field_tables import from_python
from broker.wire.properties import PERSISTENT, BasicProperties, encode_header

NUMBERS = ("priority", "timestamp", "delivery_mode")
PROPERTIES = tuple(name for name in BasicProperties._fields if name != "headers")


@click.command(cls=CommandWithExample, example="orders 'first message' --declare")
@targeted
@broker_options
@click.argument("key")
@click.argument("body", required=False)
@click.option(
    "--exchange", default="", metavar="NAME", help="Exchange; default: the default exchange, to the queue named KEY."
)
@click.option("--declare", is_flag=True, help="Declare a durable queue named KEY first, if it is missing.")
@click.option("--lines", is_flag=True, help="A message for each line of standard input.")
@click.option("--count", type=click.IntRange(1), default=1, show_default=True, help="Number of times to publish it.")
@click.option("--transient", is_flag=True, help="Not persistent: a restart of the broker discards it.")
@click.option("--property", "properties", multiple=True, metavar="NAME=VALUE", help="A property; may be repeated.")
@click.option("--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header; may be repeated.")
def publish(
    target: Target,
    broker: dict[str, str],
    key: str,
    body: str | None,
    exchange: str,
    declare: bool,
    lines: bool,
    count: int,
    transient: bool,
    properties: tuple[str, ...],
    headers: tuple[str, ...],
) -> None:
    """Publish BODY with the routing key KEY, and wait for the confirm; without BODY, standard input.

    Values of headers are JSON, otherwise text. The exit code is 1 if no queue took the message.
    """
    described = _properties(properties, headers, transient)
    with logged_in(broker) as client:
        if declare:
            client.call(methods.QueueDeclare(key, False, True, False, False, False, {}), methods.QueueDeclareOk)
        publisher, began, published = Publisher(client), time.monotonic(), 0
        method = methods.BasicPublish(exchange, key, True, False)
        for payload in _bodies(body, lines=lines):
            message = client.encode(method, encode_header(len(payload), described), payload)
            for _ in range(count):
                publisher.publish(message)
            published += count
        publisher.finish()
    milliseconds = f"{(time.monotonic() - began) * 1000:.1f} ms"
    place = f"exchange {exchange} with key {key}" if exchange else f"queue {key}"
    done("{} to {}, confirmed in {}", counted(published, "message"), place, milliseconds)


def _bodies(body: str | None, *, lines: bool) -> Iterator[bytes]:
    if body is not None and body != "-":
        yield body.encode("utf-8", "surrogateescape")
    elif lines:
        yield from (line.rstrip(b"\r\n") for line in sys.stdin.buffer)
    else:
        yield sys.stdin.buffer.read()


def _properties(properties: Iterable[str], headers: Iterable[str], transient: bool) -> BasicProperties:
    given: dict[str, Any] = {} if transient else {"delivery_mode": PERSISTENT}
    for name, value in map(_pair, properties):
        if name not in PROPERTIES:
            raise click.UsageError(f"there is no property {name}; known: {', '.join(PROPERTIES)}")
        given[name] = _number(name, value) if name in NUMBERS else value
    named = {name: _value(value) for name, value in map(_pair, headers)}
    return BasicProperties(**given, headers=from_python(named) if named else None)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise click.UsageError(f"expected NAME=VALUE, got {text}")
    return name, value


def _number(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise click.UsageError(f"expected a number for {name}, got {value}") from None


def _value(text: str) -> Any:
    try:
        return decode_json(text)
    except ValueError:
        return text
