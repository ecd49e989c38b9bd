"""Definitions exported, also changed on the way, and imported."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from broker.cli.table_output import echo
from broker.rabbitmq.admin_v2.actions.definition_transformations import transformed
from broker.rabbitmq.admin_v2.command_call import CommandCall
from broker.rabbitmq.admin_v2.run_settings import Failure

STREAM = "-"
"""The name of a file for standard input and output."""
ALL, OF_VHOST = "definitions", "definitions/{vhost}"


def _export(form: str) -> Callable[[CommandCall], None]:
    def export(call: CommandCall) -> None:
        answer = call.ask("GET", call.path(form))
        names = call.values["transformations"]
        if names:
            answer = json.dumps(transformed(json.loads(answer), names), indent=2, ensure_ascii=False)
        if call.values["stdout"] or call.values["file"] == STREAM:
            echo(answer, color=True)
        else:
            _write(call.values["file"], answer)

    return export


def _write(file: str, text: str) -> None:
    """Write a file for its owner only: definitions hold password hashes."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="utf-8", errors="surrogateescape") as out:  # noqa: PTH123
        out.write(text)


def _import(form: str) -> Callable[[CommandCall], None]:
    def import_(call: CommandCall) -> None:
        call.ask("POST", call.path(form), _definitions(call))

    return import_


def _definitions(call: CommandCall) -> Any:
    file = call.values["file"]
    if call.values.get("stdin") or file == STREAM:
        return _read(sys.stdin.buffer.read(), "could not parse JSON from standard input")
    try:
        text = Path(file).read_bytes()
    except OSError as error:
        said = f"`{file}` does not exist or is not readable: {error.strerror} (os error {error.errno})"
        raise Failure(f"Command execution failed: {said}") from error
    return _read(text, f"`{file}` is not a valid JSON file")


def _read(text: bytes, wrong: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise Failure(f"Command execution failed: {wrong}: {error}") from error


TRANSFERS: dict[str, Callable[[CommandCall], None]] = {
    "definitions export": _export(ALL),
    "definitions export_from_vhost": _export(OF_VHOST),
    "definitions import": _import(ALL),
    "import definitions": _import(ALL),
    "definitions import_into_vhost": _import(OF_VHOST),
}
"""By the names of their commands."""
