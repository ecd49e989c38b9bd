"""Arguments in JSON."""

from __future__ import annotations

import sys
from typing import Any

import click

from broker.admin.json_input.strict_json import decode_json
from broker.credentials import without_credentials


def json_value(text: str) -> Any:
    """Parse a JSON argument; `-` reads standard input, so that it is in no process list.

    Raises click.UsageError.
    """
    given = sys.stdin.read() if text == "-" else text
    try:
        return decode_json(given)
    except ValueError as error:
        raise click.UsageError(f"expected a value in JSON, got {without_credentials(given)}") from error


def json_object(text: str, what: str, example: str) -> dict[str, Any]:
    """An object in JSON; `what` it should be, and an example, are for the error. Raises click.UsageError."""
    try:
        value = decode_json(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise click.UsageError(f"expected {what} as a JSON object such as '{example}', got {text}")
    return value
