"""Output of jobs over the event log: the events read, and tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from broker.cli.table_output import aligned, text


def show_coverage(read: dict[str, Any]) -> None:
    """Print what a job has read: events, nodes, boots, gaps, and from when to when."""
    nodes = ", ".join(map(text, read["nodes"])) or "no node"
    click.echo(f"{read['events']:,} events of {nodes}, {read['boots']:,} boots, {read['gaps']:,} gaps")
    if read["from"]:
        click.echo(f"from {read['from']} until {read['until']}")
    click.echo()


def show_lines(rows: Sequence[Sequence[str]]) -> None:
    """Print cells in columns, the heading first."""
    for line in aligned(rows):
        click.echo(line)


def number(value: float | None, decimals: int = 0) -> str:
    """A number for people; a question mark when it is unknown."""
    return "?" if value is None else f"{value:,.{decimals}f}"
