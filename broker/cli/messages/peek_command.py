"""`leveret peek`: a look at the messages in a queue, which changes nothing."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator
from typing import Any

import click

from broker.admin.commands.queue_admin import PeekQueue
from broker.cli.table_output import aligned, text
from broker.cli.target_broker import Target, json_option, targeted, vhost_option
from broker.cli.usage.command_groups import CommandWithExample

PAGE = 500
"""Messages of one request."""
BODY_SHOWN = 60
"""Bytes of a body in a table."""
COLUMNS: tuple[str, ...] = ("position", "redelivered", "exchange", "routing_key", "payload_bytes")
HELD = ("channel", "consumer_tag")


@click.command(cls=CommandWithExample, example="orders --header tenant:acme --count 5", elsewhere="browse")
@targeted
@vhost_option
@click.argument("queue")
@click.option("--offset", type=click.IntRange(0), default=0, show_default=True, help="Number of the first message.")
@click.option("--count", type=click.IntRange(1), default=50, show_default=True, help="Maximum number of messages.")
@click.option("--key", metavar="KEY", help="Only messages with this routing key.")
@click.option("--header", metavar="NAME[:VALUE]", help="Only messages with this header, or with this value of it.")
@click.option("--unacknowledged", is_flag=True, help="Messages that consumers hold, with their channels.")
@click.option(
    "--bodies",
    type=click.IntRange(0),
    metavar="BYTES",
    help=f"Bytes shown of each body; default: {BODY_SHOWN} in a table, 50000 in JSON.",
)
@json_option
def peek(
    target: Target,
    vhost: str,
    queue: str,
    offset: int,
    count: int,
    key: str | None,
    header: str | None,
    unacknowledged: bool,
    bodies: int | None,
    as_json: bool,
) -> None:
    """Show messages of QUEUE in the order of delivery; nothing changes. JSON is an object per line.

    A stream's messages are shown from its first one. Where the broker does not run, its data directory is opened as for
    other commands: messages that were unacknowledged are ready then.
    """
    size = BODY_SHOWN if bodies is None and not as_json else bodies
    asked = PeekQueue(vhost=vhost, name=queue, offset=offset, truncate=size, routing_key=key, header=header)
    columns = COLUMNS
    if unacknowledged:
        asked.state, columns = "unacknowledged", (*COLUMNS, *HELD)
    lines = list[tuple[str, ...]]()
    for row in _rows(target, asked, count):
        if as_json:
            click.echo(json.dumps(row))
        else:
            lines.append((*(text(row[column]) for column in columns), _body(row)))
    if lines:
        click.echo("\n".join(aligned([(*columns, "body"), *lines])))


def _rows(target: Target, asked: PeekQueue, left: int) -> Iterator[dict[str, Any]]:
    """Yield rows, page by page. Says where to go on if there may be more."""
    while left:
        asked.count = min(left, PAGE)
        page = target.run(asked)
        yield from page["messages"]
        left -= len(page["messages"])
        if page["unreadable"]:
            click.echo(f"{page['unreadable']} messages are damaged on disk and not shown", err=True)
        if page["next_offset"] is None:
            return
        asked.offset = page["next_offset"]
    click.echo(f"there may be more: --offset {asked.offset}", err=True)


def _body(row: dict[str, Any]) -> str:
    payload: str = row["payload"]
    return text(payload) if row["payload_encoding"] == "string" else f"0x{b64decode(payload).hex()}"
