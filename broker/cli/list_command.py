"""`leveret list ...`: what exists, in columns."""

from __future__ import annotations

import click

from broker.admin.commands.admin_command import VhostList
from broker.admin.protocol import AdministrationError
from broker.cli.table_output import show_rows
from broker.cli.target_broker import Target, json_option, targeted
from broker.cli.usage.command_groups import CommandWithExample, meant
from broker.cli.usage.listing_kinds import LISTINGS


def _kind(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """A kind of thing, in the singular or the plural."""
    kind = meant(value, LISTINGS)
    if kind is None:
        raise click.BadParameter(f"there is no kind {value}; known: {', '.join(LISTINGS)}", ctx, param)
    return kind


def _kinds(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [kind for kind in LISTINGS if kind.startswith(incomplete)]


@click.command(name="list", cls=CommandWithExample, example="queues name messages consumers")
@targeted
@click.argument("kind", metavar="KIND", callback=_kind, shell_complete=_kinds)
@click.argument("columns", nargs=-1)
@click.option("-p", "--vhost", metavar="VHOST", help="Only this virtual host; default: all of them.")
@json_option
def listing(target: Target, kind: str, columns: tuple[str, ...], vhost: str | None, as_json: bool) -> None:
    """List things of a KIND, with these COLUMNS or the default ones.

    KIND, in the singular or the plural: queues, exchanges, bindings, users, vhosts, permissions, topic-permissions,
    policies, operator-policies, parameters, global-parameters, feature-flags; of a running broker connections,
    channels, consumers, shovels, listeners, alarms, certificates. The error for an unknown column names the known
    ones.
    """
    show(target, kind, columns, vhost, as_json)


def show(target: Target, kind: str, columns: tuple[str, ...], vhost: str | None, as_json: bool) -> None:
    """Print a listing; with JSON and no columns named, every column that there is."""
    chosen = LISTINGS[kind]
    carry_out = target.ask if chosen.running_only else target.run
    narrowed = vhost is not None and not issubclass(chosen.command, VhostList) and "vhost" in chosen.columns
    wanted = columns or (() if as_json else chosen.columns)
    try:
        rows = chosen.rows(carry_out, [*wanted, "vhost"] if wanted and narrowed else wanted, vhost)
    except AdministrationError as error:
        if error.kind != "invalid":
            raise
        raise click.UsageError(str(error)) from error
    if narrowed:
        rows = [row for row in rows if row["vhost"] == vhost]
    show_rows(rows, wanted or (tuple(rows[0]) if rows else chosen.columns), as_json)
