"""Messages as they are printed: the body alone, a line that says where from, or JSON."""

from __future__ import annotations

import base64
import json
import sys
from typing import Any

import click

from broker.admin.json_tables import plain
from broker.cli.table_output import text
from broker.wire.assembler import Command
from broker.wire.properties import decode_properties


def show_body(message: Command) -> None:
    """Print a body and a line feed. On a terminal what could command it is escaped; in a file the bytes are as sent."""
    if sys.stdout.isatty():
        click.echo(text(message.body.decode("utf-8", "backslashreplace")))
    else:
        click.echo(message.body)


def show_line(message: Command) -> None:
    """Print exchange, key and body in one line."""
    method: Any = message.method
    body = text(message.body.decode("utf-8", "backslashreplace"))
    click.echo(f"{text(method.exchange) or '(default)'}  {text(method.routing_key)}  {body}")


def show_json(message: Command) -> None:
    """Print everything about a message as one line of JSON; a body that is no UTF-8 in base64."""
    method: Any = message.method
    assert message.header_payload is not None
    properties = {
        name: plain(value) if name == "headers" else value
        for name, value in decode_properties(message.header_payload)._asdict().items()
        if value is not None
    }
    shown = {
        "exchange": method.exchange,
        "routing_key": method.routing_key,
        "redelivered": method.redelivered,
        "properties": properties,
        **_payload(message.body),
    }
    click.echo(json.dumps(shown))


def _payload(body: bytes) -> dict[str, str]:
    try:
        return {"payload": body.decode(), "payload_encoding": "string"}
    except UnicodeDecodeError:
        return {"payload": base64.b64encode(body).decode(), "payload_encoding": "base64"}
