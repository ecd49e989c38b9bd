"""`leveret migrate`: a whole broker moved, from a RabbitMQ or to one."""

from __future__ import annotations

import os
import time

import click

from broker.cli.jobs.amqp_options import PASSWORD
from broker.cli.jobs.progress import progress
from broker.cli.table_output import aligned, counted, show_tree, text
from broker.cli.target_broker import Target, json_option, targeted
from broker.cli.usage.command_groups import CommandWithExample

WINDOW = 1000


@click.command(
    cls=CommandWithExample,
    example="--from amqp://guest:guest@old.example.com --management http://old.example.com:15672",
)
@targeted
@click.option("--from", "source", metavar="URI", help="Move from the broker at amqp://user:password@host to this one.")
@click.option(
    "--to", "target_uri", metavar="URI", help="Move from this broker to the one at amqp://user:password@host."
)
@click.option("--management", required=True, metavar="URL", help="The HTTP API of the other broker: http://host:15672.")
@click.option(
    "-p", "--vhost", "vhosts", multiple=True, metavar="VHOST", help="Only this virtual host; may be repeated."
)
@click.option(
    "--window", type=click.IntRange(1, 65535), default=WINDOW, show_default=True, help="Unconfirmed messages."
)
@click.option("--definitions-only", is_flag=True, help="Move definitions only.")
@json_option
def migrate(
    target: Target,
    source: str | None,
    target_uri: str | None,
    management: str,
    vhosts: tuple[str, ...],
    window: int,
    definitions_only: bool,
    as_json: bool,
) -> None:
    """Move definitions and messages of a running RabbitMQ or Leveret into this broker, or from this one to it.

    Messages are acknowledged at their source once their target has confirmed them. Order, properties and headers are
    kept. Without a password in the URI, LEVERET_PASSWORD has it, so that no process list shows it. A killed migration
    can be repeated. Definitions without a counterpart on the other side are listed at the end.
    """
    # Imported here: no other command needs what moves messages.
    from broker.client.uris import UriError, parse
    from broker.migration.migrating_brokers import LocalBroker, RemoteBroker
    from broker.migration.migration import Migration

    if (source is None) == (target_uri is None):
        raise click.UsageError("expected --from or --to")
    try:
        endpoint = parse(source or target_uri or "")
    except UriError as error:
        raise click.UsageError(f"expected a URI such as amqp://user:password@host, got {error}") from error
    if endpoint.host is None or endpoint.vhost not in ("/", ""):
        raise click.UsageError("expected a URI with a host and without a virtual host: --vhost chooses some")
    if endpoint.user and endpoint.password is None:
        endpoint = endpoint._replace(password=os.environ.get(PASSWORD))
    here, there = LocalBroker(target.directory), RemoteBroker(endpoint, management)
    migration = Migration(there, here, vhosts, window) if source else Migration(here, there, vhosts, window)
    began = time.monotonic()
    definitions = migration.definitions()
    rows = [] if definitions_only else migration.waiting()
    with progress("messages", sum(row.ready for row in rows), counts=True) as tell:
        messages = 0 if definitions_only else migration.messages(rows, tell)
    outcome = migration.outcome(definitions, len(rows), messages, began)
    if as_json:
        show_tree(outcome.in_json(), True)
        return
    click.echo(", ".join(counted(number, kind.rstrip("s")) for kind, number in definitions.items() if number))
    click.echo(f"{counted(messages, 'message')} of {counted(len(rows), 'queue')} in {outcome.seconds:.1f} s")
    if outcome.left:
        click.echo("Not moved, or without effect there:", err=True)
        for line in aligned([[text(cell) for cell in left] for left in outcome.left]):
            click.echo(f"  {line}", err=True)
