"""`leveret inspect`: what lies in the store of a broker that does not run."""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

import click

from broker.admin.commands.node_admin import Backup
from broker.admin.protocol import AdministrationError
from broker.cli.jobs.pipeline_extra import pipeline_module
from broker.cli.named_directory import in_use
from broker.cli.table_output import aligned, text
from broker.cli.target_broker import Target, targeted
from broker.cli.usage.command_groups import CommandWithExample

SHOWN = 50
BODY_SHOWN = 60
TABLES = {
    "queues": ("vhost", "queue", "type", "messages", "bytes", "oldest", "oldest_timestamp"),
    "exchanges": ("vhost", "exchange", "type", "auto_delete", "internal", "arguments"),
    "bindings": ("vhost", "source", "destination", "destination_type", "routing_key", "arguments"),
}
COLUMNS = (
    "vhost",
    "queue",
    "position",
    "exchange",
    "routing_key",
    "message_id",
    "size_bytes",
    "persistent",
    "delivered",
    "delivery_count",
    "expires_at",
    "due_at",
    "dead_letter",
    "damage",
)
"""The columns of a message in the table; columns that are empty for every message shown are left out."""


@click.command(name="inspect", cls=CommandWithExample, example="--queue orders --limit 20")
@targeted
@click.option("-p", "--vhost", metavar="VHOST", help="Only of this virtual host; default: all of them.")
@click.option("--queue", metavar="NAME", help="Only of this queue.")
@click.option(
    "--limit", type=click.IntRange(0), help=f"Number of messages; default: {SHOWN} in a table, otherwise all."
)
@click.option("--bodies", is_flag=True, help="Show the beginnings of bodies; in JSON whole bodies.")
@click.option("--format", "form", type=click.Choice(["table", "json", "parquet"]), default="table", show_default=True)
@click.option("--out", metavar="DIR|URI", help="Output directory for Parquet files.")
@click.option("--copy", "copied", is_flag=True, help="For a running broker: make a backup, and read that.")
def inspect(
    target: Target,
    vhost: str | None,
    queue: str | None,
    limit: int | None,
    bodies: bool,
    form: str,
    out: str | None,
    copied: bool,
) -> None:
    """Show the stores of a stopped broker, or of a backup: definitions, then messages.

    Nothing is changed; unreadable records are named. While a broker runs on the directory, it needs --copy; a copy of
    what a standby has is made without. JSON is an object per line, with a `kind`.
    """
    if (form == "parquet") != (out is not None):
        raise click.UsageError("--format parquet and --out go together")
    if not copied:
        target.may_be_read()
        copied = _is_followed_now(target.directory)
    store = pipeline_module("stopped_store.data_directory")
    files = None if out is None else pipeline_module("stopped_store.store_files")
    try:
        with _place(target, copied) as place, store.opened(place) as directory:
            tables = store.tables(directory, vhost, queue)
            if queue is not None and not tables["queues"]:
                raise AdministrationError("not_found", f"no queue {queue!r} in {vhost or 'any virtual host'}")
            found = store.message_rows(directory, vhost, queue)
            if files is not None and out is not None:
                _write(files.write(out, tables, islice(found, limit)), out)
            elif form == "json":
                _print_json(tables, map(store.readable, islice(found, limit)), bodies=bodies)
            else:
                _print(tables, map(store.readable, found), SHOWN if limit is None else limit, bodies=bodies)
            aside = directory.messages.set_aside()
    except ValueError as error:  # a place for files that cannot be understood, or is taken
        raise AdministrationError("invalid", str(error)) from error
    if aside:
        click.echo(f"{aside} damaged records were set aside by the broker; their bytes are in the store", err=True)


def _is_followed_now(directory: Path) -> bool:
    """Return whether a standby runs here: it makes a copy of what it has by then."""
    from storage.ship.standby.follow_note import read_note

    note = read_note(directory)
    return note is not None and not note.promoted and in_use(directory)


@contextmanager
def _place(target: Target, copied: bool) -> Iterator[Path]:
    """The data directory, or a backup of it that ends with this command."""
    if not copied:
        yield target.directory
        return
    with tempfile.TemporaryDirectory(prefix="leveret-inspect-") as scratch:
        copy = Path(scratch) / "copy"
        target.ask(Backup(directory=str(copy)), timeout_seconds=None)
        yield copy


def _print(
    tables: Mapping[str, list[dict[str, Any]]], found: Iterator[dict[str, Any]], limit: int, *, bodies: bool
) -> None:
    for name, rows in tables.items():
        _print_rows(name, rows, TABLES[name])
    messages = list(islice(found, limit))
    there_is_more = next(found, None) is not None
    columns = [name for name in COLUMNS if any(row[name] is not None for row in messages)]
    if bodies:
        messages = [{**row, "body": None if row["body"] is None else _beginning(row["body"])} for row in messages]
        columns.append("body")
    _print_rows("messages", messages, columns, ", and there are more (--limit)" if there_is_more else "")


def _print_rows(name: str, rows: Sequence[Mapping[str, Any]], columns: Sequence[str], remark: str = "") -> None:
    click.echo(f"{name}: {len(rows)}{remark}")
    if rows:
        for line in aligned([list(columns), *([_cell(row[column]) for column in columns] for row in rows)]):
            click.echo(f"  {line}".rstrip())


def _cell(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else text(value)


def _beginning(body: bytes) -> str:
    """A body in one line: text, or hexadecimal where it is none."""
    try:
        shown = body.decode()[:BODY_SHOWN]
    except UnicodeDecodeError:
        shown = "0x" + body[: BODY_SHOWN // 2].hex()
        return shown + ("..." if len(body) > BODY_SHOWN // 2 else "")
    return shown + ("..." if len(body) > len(shown.encode()) else "")


def _print_json(
    tables: Mapping[str, list[dict[str, Any]]], messages: Iterator[dict[str, Any]], *, bodies: bool
) -> None:
    for name, rows in tables.items():
        for row in rows:
            click.echo(json.dumps({"kind": name[:-1], **row}, default=_jsonable))
    for row in messages:
        shown = row if bodies else {name: value for name, value in row.items() if name != "body"}
        click.echo(json.dumps({"kind": "message", **shown}, default=_jsonable))


def _jsonable(value: object) -> object:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _write(files: Iterator[tuple[str, int]], out: str) -> None:
    messages = 0
    for name, rows in files:
        messages += rows if name.startswith("messages") else 0
    click.echo(f"{messages} messages in {out}")
