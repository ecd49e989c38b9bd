"""`leveret pipeline dead-letters|replay`: why messages lie in a dead-letter queue, and some of them back again."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import Any

import click

from broker.admin.protocol import AdministrationError
from broker.cli.jobs.amqp_options import broker_options
from broker.cli.jobs.pipeline_extra import pipeline_module
from broker.cli.jobs.pipeline_options import JobSetting, JobSource, placed, timed
from broker.cli.table_output import aligned, text
from broker.cli.target_broker import Target, json_option, targeted
from broker.cli.usage.command_groups import CommandWithExample

LOOK_MAX = 65535
"""As many as one connection may hold."""

ORIGINAL = "original"
GROUP = ("reason", "death_queue", "death_exchange", "death_routing_key", "messages", "deaths", "first_at", "last_at")
HEADING = ("reason", "died in", "exchange", "routing key", "messages", "deaths", "first", "last")

look_option = click.option(
    "--look",
    type=click.IntRange(1, LOOK_MAX),
    default=LOOK_MAX,
    show_default=True,
    metavar="N",
    help="Maximum number of messages to look at.",
)
queue_option = click.option("--queue", required=True, metavar="NAME", help="The dead-letter queue.")


@click.command(
    name="dead-letters",
    short_help="Why messages are in a dead-letter queue.",
    cls=CommandWithExample,
    example="--queue dead --out dead-letters",
)
@targeted
@broker_options
@queue_option
@click.option("--events", metavar="DIR|URI", help="Event log, or an export of one, for dead-letter rates.")
@look_option
@timed
@placed
@json_option
def dead_letters(
    target: Target,
    broker: dict[str, str],
    queue: str,
    events: str | None,
    look: int,
    since: Any,
    until: Any,
    setting: JobSetting,
    as_json: bool,
) -> None:
    """Show why messages are in a dead-letter queue: reason, origin, count, time of the first, and samples.

    They stay there, marked as redelivered. At most --look messages from the queue's head are read.
    """
    _count(broker, queue)  # what is refused is refused before Spark has started
    source = None if events is None else JobSource(events, _access(broker, events))
    parts = None if source is None else source.parts()
    with setting.spark("dead-letters") as (spark, place):
        jobs = pipeline_module("jobs.dead_letter_job")
        try:
            found = jobs.run_dead_letters(spark, place, broker, queue, look, parts, since, until)
        except jobs.FAILURES as error:
            raise AdministrationError("failed", str(error)) from error
    if as_json:
        rows = [{**row.asDict(), "samples": list(row.samples)} for row in found.groups]
        click.echo(json.dumps({"ready": found.ready, "looked": found.looked, "groups": rows}, indent=2, default=_cell))
        return
    click.echo(f"{found.looked:,} of {found.ready:,} messages in {text(queue)}")
    _show_groups(found.groups)


@click.command(
    short_help="Publish dead letters again.",
    cls=CommandWithExample,
    example="--queue dead --where \"reason = 'rejected'\"",
)
@targeted
@broker_options
@queue_option
@click.option("--where", required=True, metavar="SQL", help="Condition over the columns, see docs/jobs.md.")
@click.option(
    "--exchange", default=ORIGINAL, show_default=True, help="Exchange to publish to; default: that of x-death."
)
@click.option("--routing-key", default=ORIGINAL, show_default=True, help="Routing key; default: that of x-death.")
@click.option("--back", is_flag=True, help="Publish to the queue in which it died, instead.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Maximum number of messages to replay.")
@look_option
@click.option(
    "--x-death",
    "history",
    type=click.Choice(["keep", "remove"]),
    default="keep",
    show_default=True,
    help="Keep the x-death headers.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be replayed; publish nothing.")
def replay(
    target: Target,
    broker: dict[str, str],
    queue: str,
    where: str,
    exchange: str,
    routing_key: str,
    back: bool,
    limit: int | None,
    look: int,
    history: str,
    dry_run: bool,
) -> None:
    """Publish messages of a dead-letter queue again, with confirms, and only then take them out of it.

    The others stay there in their order. Exit code 1 if a message was returned or refused: it stays, too. If the
    command is killed, no message is lost; up to 500 may then be in both places.
    """
    if back and (exchange, routing_key) != (ORIGINAL, ORIGINAL):
        raise click.UsageError("--back excludes --exchange and --routing-key")
    replaying, jobs = pipeline_module("replay"), pipeline_module("jobs.engines")
    request = replaying.Request(
        where=where,
        exchange=None if exchange == ORIGINAL else exchange,
        routing_key=None if routing_key == ORIGINAL else routing_key,
        back=back,
        limit=limit,
        look=look,
        keeps_history=history == "keep",
        is_trial=dry_run,
    )
    if _count(broker, queue) == 0:
        click.echo(f"nothing is ready in {text(queue)}")
        return
    try:
        with jobs.spark_for("replay", master="local[2]") as spark:
            done = replaying.replay(spark, broker, queue, request)
    except (*replaying.FAILURES, jobs.JobError) as error:
        raise AdministrationError("failed", str(error)) from error
    _show_replayed(done, dry_run)
    sys.exit(bool(done.not_taken))


def _count(broker: dict[str, str], queue: str) -> int:
    """Return the number of ready messages. Raises AdministrationError."""
    archive = pipeline_module("archive")
    try:
        return int(archive.ready(broker, queue))
    except archive.FAILURES as error:
        raise AdministrationError("failed", str(error)) from error


def _access(broker: dict[str, str], events: str) -> dict[str, str]:
    """The login for an event log by HTTP: the same as for the broker."""
    known = ("user", "password", "passwordFile") if events.startswith(("http://", "https://")) else ()
    return {name: broker[name] for name in known if name in broker}


def _show_groups(groups: list[Any]) -> None:
    if groups:
        for line in aligned([HEADING, *([_cell(row[name]) for name in GROUP] for row in groups)]):
            click.echo(line)
    for row in groups:
        click.echo(f"\n{_cell(row.reason) or 'no x-death'}, {_cell(row.death_queue) or 'from nowhere'}:")
        for sample in row.samples:
            click.echo(f"  {text(sample)}")


def _cell(value: object) -> str:
    if isinstance(value, datetime):  # Spark gives times in this machine's zone, and says nothing of it
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"
    return text(value) if value is None or isinstance(value, str) else str(value)


def _show_replayed(done: Any, is_trial: bool) -> None:
    meant = sum(done.selected.values())
    click.echo(f"{done.looked:,} of {done.ready:,} messages looked at, {meant + done.homeless:,} meant")
    for (exchange, key), messages in done.selected.most_common():
        click.echo(f"  {messages:,} to exchange {text(exchange) or '(default)'} with key {text(key)}")
    if done.homeless:
        click.echo(f"  {done.homeless:,} do not say where they came from, and stay")
    if not is_trial:
        click.echo(f"{done.replayed:,} replayed, {done.not_taken:,} returned or refused")
