"""Commands for a running broker as a whole: `leveret environment|memory|report|wait|stop|set-...|...`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import click

from broker.admin.commands.connection_admin import CloseConnections
from broker.admin.commands.node_admin import (
    Environment,
    Memory,
    Ping,
    SetDiskFreeLimit,
    SetLogForm,
    SetLogLevel,
    SetVmMemoryHighWatermark,
    Status,
    Stop,
)
from broker.admin.protocol import NotRunning
from broker.cli.table_output import aligned, counted, done, show_tree, text
from broker.cli.target_broker import LOOK_SECONDS, Target, await_end, json_option, targeted
from broker.cli.usage.command_groups import CommandWithExample
from broker.cli.usage.listing_kinds import LISTINGS
from broker.rabbitmq.conf.conf_values import Unfit, size

WAIT_SECONDS = 300.0


@click.command(cls=CommandWithExample, example="--json")
@targeted
@json_option
def environment(target: Target, as_json: bool) -> None:
    """Show the settings that the broker runs with. Secrets are hidden."""
    show_tree(target.ask(Environment()), as_json)


MEMORY_WORDS = {
    "resident": "RSS of `top` and `ps`: the four lines that follow, together",
    "  heap": "queues, messages in memory, connections: the only part that the memory alarm counts, with freed",
    "    of clients": "received and not handled yet, or not sent yet",
    "  freed": "kept for what comes next, given back after a minute",
    "  message store": "pages of messages/data.mdb that were read; given back above memory.mapped_bytes_max",
    "  code": "programs and libraries",
    "journal": "its file, not resident: the kernel caches it, and drops it when memory is short",
    "container": "MEM USAGE of `docker stats`: heap, freed, the kernel's own, and files in frequent use",
}
"""The lines of `leveret memory`."""


@click.command(cls=CommandWithExample, elsewhere="memory_breakdown")
@targeted
@json_option
def memory(target: Target, as_json: bool) -> None:
    """Show memory by its use, and in the words of `top` and `docker stats`."""
    uses = target.ask(Memory())
    if as_json:
        show_tree(uses, as_json)
        return
    for line in aligned(list(map(list, _memory_lines(uses)))):
        click.echo(line)


def _memory_lines(uses: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    clients, outside = uses["connection_readers"] + uses["connection_writers"], uses["outside"]
    sizes = {
        "resident": uses["total"]["rss"],
        "  heap": uses["total"]["erlang"],
        "    of clients": clients,
        "  freed": uses["allocated_unused"],
        "  message store": uses["msg_index"],
        "  code": uses["code"],
        "journal": outside["journal"],
        "container": outside["container"],
    }
    for name, words in MEMORY_WORDS.items():
        yield name, "unknown" if sizes[name] is None else f"{sizes[name] / (1 << 20):.1f} MiB", words


@click.command(cls=CommandWithExample, example="> report.txt")
@targeted
def report(target: Target) -> None:
    """Print a report for the analysis of a fault. It has no secrets."""
    for title, command in (("Status", Status()), ("Memory", Memory()), ("Settings", Environment())):
        _section(title)
        show_tree(target.ask(command), False)
    for kind, listing in LISTINGS.items():
        _section(kind.replace("-", " ").capitalize())
        rows = listing.rows(target.ask, listing.columns)
        cells = [[text(row[column]) for column in listing.columns] for row in rows]
        for line in aligned([list(listing.columns), *cells]):
            click.echo(line)


def _section(title: str) -> None:
    click.echo(f"\n{title}\n{'-' * len(title)}")


@click.command(cls=CommandWithExample, example="--timeout 30", elsewhere="await_startup")
@targeted
@click.option("--timeout", type=float, default=WAIT_SECONDS, show_default=True, metavar="SECONDS")
def wait(target: Target, timeout: float) -> None:
    """Wait until the broker answers; exit code 1 if it does not in time."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            target.ask(Ping())
            return done("the broker answers")
        except NotRunning:
            if time.monotonic() > deadline:
                raise
        time.sleep(LOOK_SECONDS)


@click.command(cls=CommandWithExample, elsewhere="shutdown")
@targeted
def stop(target: Target) -> None:
    """Stop the broker in order, as SIGTERM does, and wait until it has ended."""
    target.ask(Stop())
    await_end(target.directory)
    done("stopped")


@click.command(
    name="set-memory-high-watermark", cls=CommandWithExample, example="2GB", elsewhere="set_vm_memory_high_watermark"
)
@targeted
@click.argument("limit")
def set_memory_high_watermark(target: Target, limit: str) -> None:
    """Block publishers above LIMIT, a fraction of memory such as 0.4 or a size such as 2GB, until a restart."""
    target.ask(SetVmMemoryHighWatermark(**_fraction_or_size(limit, "fraction")))
    done("memory limit is {} until the next start", limit)


@click.command(name="set-disk-free-limit", cls=CommandWithExample, example="5GB")
@targeted
@click.argument("limit")
@click.option("--relative", is_flag=True, help="LIMIT is a multiple of the memory, such as 1.5.")
def set_disk_free_limit(target: Target, limit: str, relative: bool) -> None:
    """Block publishers when less than LIMIT of the disk is free, such as 2GB, until a restart."""
    target.ask(SetDiskFreeLimit(**{"mem_relative": _number(limit)} if relative else {"bytes": _size(limit)}))
    done("limit of free disk is {} until the next start", limit)


@click.command(name="set-log-level", cls=CommandWithExample, example="debug")
@targeted
@click.argument("level", type=click.Choice(["debug", "info", "warning", "error", "critical", "none"]))
def set_log_level(target: Target, level: str) -> None:
    """Log from LEVEL on, until a restart; `logs.level` and LEVERET_LOG_LEVEL outlast one."""
    target.ask(SetLogLevel(level=level))
    done("log level is {} until the next start", level)


@click.command(name="set-log-form", cls=CommandWithExample, example="json")
@targeted
@click.argument("form", type=click.Choice(["text", "json"]))
def set_log_form(target: Target, form: str) -> None:
    """Write the log as text or as JSON, until a restart; `logs.form` and LEVERET_LOG_FORM outlast one."""
    target.ask(SetLogForm(form=form))
    done("log is written as {} until the next start", form)


@click.command(
    name="close-connections", cls=CommandWithExample, example="--user app --limit 10", elsewhere="close_all_connections"
)
@targeted
@click.option("-p", "--vhost", metavar="VHOST", help="Connections in this virtual host.")
@click.option("--user", metavar="NAME", help="Connections of this user.")
@click.option("--all", "everything", is_flag=True, help="All connections.")
@click.option("--limit", type=click.IntRange(0), help="Maximum number of connections.")
@click.argument("reason", default="Closed via the command line")
def close_connections(
    target: Target, vhost: str | None, user: str | None, everything: bool, limit: int | None, reason: str
) -> None:
    """Close connections with 320 CONNECTION_FORCED and this REASON, and print their number."""
    if everything == (vhost is not None or user is not None):
        raise click.UsageError("expected --vhost or --user, or --all")
    closed = target.ask(CloseConnections(vhost=vhost, user=user, limit=limit, reason=reason))
    click.echo(counted(closed["closed"], "connection") + " closed")


def _fraction_or_size(limit: str, fraction: str) -> dict[str, Any]:
    try:
        share = float(limit)
    except ValueError:
        return {"bytes": _size(limit)}
    return {fraction: share} if share <= 1 else {"bytes": _size(limit)}


def _size(given: str) -> int:
    try:
        return size(given)
    except Unfit as error:
        raise click.UsageError(f"expected {error}, got {given}") from error


def _number(given: str) -> float:
    try:
        return float(given)
    except ValueError:
        raise click.UsageError(f"expected a number such as 1.5, got {given}") from None
