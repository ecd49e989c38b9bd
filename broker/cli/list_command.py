"""`leveret list ...`: what exists, in columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import click

from broker.admin.protocol import AdministrationError
from broker.cli.table_output import show_rows
from broker.cli.target_broker import Target, json_option, targeted
from broker.cli.usage.command_groups import meant
from broker.credentials import without_credentials


class Listing(NamedTuple):
    """A kind of thing that can be listed: the command that answers with rows, and the columns shown unasked."""

    command: str
    columns: tuple[str, ...]
    in_vhost: bool = True
    running_only: bool = False
    secret: bool = False
    """Values may have credentials, which are not shown."""

    def rows(self, carry_out: Callable[..., Any], **arguments: object) -> list[dict[str, Any]]:
        """What a way to have commands carried out answers, as it may be shown."""
        found: list[dict[str, Any]] = carry_out(self.command, **arguments)
        return without_credentials(found) if self.secret else found


LISTINGS = {
    "queues": Listing(
        "list_queues", ("vhost", "name", "messages_ready", "messages_unacknowledged", "messages", "consumers")
    ),
    "exchanges": Listing("list_exchanges", ("vhost", "name", "type")),
    "bindings": Listing("list_bindings", ("vhost", "source", "destination", "destination_type", "routing_key")),
    "connections": Listing("list_connections", ("name", "user", "vhost", "state", "channels"), False, True),
    "channels": Listing(
        "list_channels",
        ("name", "user", "vhost", "consumer_count", "messages_unacknowledged", "prefetch_count"),
        False,
        True,
    ),
    "consumers": Listing(
        "list_consumers", ("vhost", "queue", "consumer_tag", "channel", "ack_required", "prefetch_count"), True, True
    ),
    "users": Listing("list_users", ("name", "tags"), False),
    "vhosts": Listing("list_vhosts", ("name",), False),
    "permissions": Listing("list_permissions", ("vhost", "user", "configure", "write", "read")),
    "policies": Listing("list_policies", ("vhost", "name", "pattern", "apply-to", "definition", "priority")),
    "operator-policies": Listing(
        "list_operator_policies", ("vhost", "name", "pattern", "apply-to", "definition", "priority")
    ),
    "parameters": Listing("list_parameters", ("vhost", "component", "name", "value"), secret=True),
    "global-parameters": Listing("list_global_parameters", ("name", "value"), False, secret=True),
    "topic-permissions": Listing("list_topic_permissions", ("vhost", "user", "exchange", "write", "read")),
    "listeners": Listing("list_listeners", ("interface", "port", "protocol", "purpose"), False, True),
    "alarms": Listing("list_alarms", ("node", "resource"), False, True),
    "certificates": Listing("list_certificates", ("file", "subject", "until"), False, True),
    "shovels": Listing("list_shovels", ("vhost", "name", "type", "state", "src_uri", "dest_uri"), True, True),
    "feature-flags": Listing("list_feature_flags", ("name", "state", "desc"), False),
}


def _kind(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """A kind of thing, in the singular or the plural."""
    kind = meant(value, LISTINGS)
    if kind is None:
        raise click.BadParameter(f"there is no kind {value}; known: {', '.join(LISTINGS)}", ctx, param)
    return kind


def _kinds(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [kind for kind in LISTINGS if kind.startswith(incomplete)]


@click.command(name="list")
@targeted
@click.argument("kind", metavar="KIND", callback=_kind, shell_complete=_kinds)
@click.argument("columns", nargs=-1)
@click.option("-p", "--vhost", metavar="VHOST", help="Only this virtual host; default: all of them.")
@json_option
def listing(target: Target, kind: str, columns: tuple[str, ...], vhost: str | None, as_json: bool) -> None:
    """List things of a KIND, with these COLUMNS or the usual ones.

    KIND, in the singular or the plural: queues, exchanges, bindings, users, vhosts, permissions, topic-permissions,
    policies, operator-policies, parameters, global-parameters, feature-flags; of a running broker connections,
    channels, consumers, shovels, listeners, alarms, certificates. For a column that there is not, the answer names
    those that there are.
    """
    show(target, kind, columns, vhost, as_json)


def show(target: Target, kind: str, columns: tuple[str, ...], vhost: str | None, as_json: bool) -> None:
    """Print a listing; with JSON and no columns named, every column that there is."""
    chosen = LISTINGS[kind]
    carry_out = target.ask if chosen.running_only else target.run
    narrowed = vhost is not None and not chosen.in_vhost and "vhost" in chosen.columns
    wanted = columns or (() if as_json else chosen.columns)
    arguments: dict[str, Any] = {"vhost": vhost} if chosen.in_vhost else {}
    if wanted:
        arguments["columns"] = [*wanted, "vhost"] if narrowed else list(wanted)
    try:
        rows = chosen.rows(carry_out, **arguments)
    except AdministrationError as error:
        if error.kind != "invalid":
            raise
        raise click.UsageError(str(error)) from error
    if narrowed:
        rows = [row for row in rows if row["vhost"] == vhost]
    show_rows(rows, wanted or (tuple(rows[0]) if rows else chosen.columns), as_json)
