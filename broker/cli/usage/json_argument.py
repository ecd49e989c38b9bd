"""Arguments in JSON."""

from __future__ import annotations

from typing import Any

import click

from broker.admin.json_input.strict_json import decode_json


def json_value(text: str) -> Any:
    """What an argument in JSON says. Raises click.UsageError."""
    try:
        return decode_json(text)
    except ValueError as error:
        raise click.UsageError(f"expected a value in JSON, got {text}") from error


def json_object(text: str, what: str, example: str) -> dict[str, Any]:
    """An object in JSON; `what` it should be, and an example, are for the error. Raises click.UsageError."""
    try:
        value = decode_json(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise click.UsageError(f"expected {what} as a JSON object such as '{example}', got {text}")
    return value
