"""`leveret get|consume`: a queue's messages, taken one by one or as they come."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from broker.admin.protocol import AdministrationError
from broker.cli.jobs.amqp_options import broker_options
from broker.cli.messages.amqp_client import ANSWER_SECONDS, AmqpClient, logged_in
from broker.cli.messages.message_output import show_body, show_json
from broker.cli.target_broker import Target, json_option, targeted
from broker.cli.usage.command_groups import CommandWithExample
from broker.wire import methods
from broker.wire.assembler import Command

count_option = click.option("--count", type=click.IntRange(1), metavar="N", help="Number of messages.")


@contextmanager
def until_interrupted() -> Iterator[None]:
    """^C ends what is done here in order."""
    try:
        yield
    except KeyboardInterrupt:
        pass


@click.command(cls=CommandWithExample, example="orders --count 10 --keep")
@targeted
@broker_options
@click.argument("queue")
@click.option("--count", type=click.IntRange(1), default=1, show_default=True, help="Maximum number of messages.")
@click.option("--keep", is_flag=True, help="Return them to the queue, marked as redelivered.")
@json_option
def get(target: Target, broker: dict[str, str], queue: str, count: int, keep: bool, as_json: bool) -> None:
    """Take messages off QUEUE and print their bodies; exit code 1 if it is empty."""
    show = show_json if as_json else show_body
    with logged_in(broker) as client:
        last = 0
        for tag, message in enumerate(_got(client, queue, count), 1):
            show(message)
            last = tag
        if not last:
            raise AdministrationError("not_found", f"queue '{queue}' is empty")
        client.send(methods.BasicNack(last, True, True) if keep else methods.BasicAck(last, True))


def _got(client: AmqpClient, queue: str, count: int) -> Iterator[Command]:
    for _ in range(count):
        client.send(methods.BasicGet(queue, False))
        message = client.next(ANSWER_SECONDS)
        if message is None:
            raise AdministrationError("failed", f"the broker has not answered in {ANSWER_SECONDS:g} seconds")
        if not isinstance(message.method, methods.BasicGetOk):
            return
        yield message


@click.command(cls=CommandWithExample, example="orders --json")
@targeted
@broker_options
@click.argument("queue")
@count_option
@click.option(
    "--prefetch", type=click.IntRange(1, 65535), default=100, show_default=True, help="Unacknowledged messages."
)
@json_option
def consume(
    target: Target, broker: dict[str, str], queue: str, count: int | None, prefetch: int, as_json: bool
) -> None:
    """Print the bodies of QUEUE's messages as they come, until ^C; each is acknowledged when it is printed."""
    show = show_json if as_json else show_body
    with logged_in(broker) as client, until_interrupted():
        client.call(methods.BasicQos(0, min(prefetch, count or prefetch), False), methods.BasicQosOk)
        client.call(methods.BasicConsume(queue, "", False, False, False, False, {}), methods.BasicConsumeOk)
        shown = 0
        while shown != count:
            message = client.next(None)
            if message is not None and isinstance(message.method, methods.BasicDeliver):
                show(message)
                client.send(methods.BasicAck(message.method.delivery_tag, False))
                shown += 1
