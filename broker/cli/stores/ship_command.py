"""`leveret ship`: a running broker ships its store to a second place."""

from __future__ import annotations

from pathlib import Path

import click

from broker.admin.commands.node_admin import ShipOff, ShipTo
from broker.cli.table_output import done
from broker.cli.target_broker import Target, targeted
from broker.cli.usage.command_groups import CommandWithExample


@click.command(cls=CommandWithExample, example="--to sftp://backup@nas/leveret")
@targeted
@click.option("--to", "place", metavar="PLACE", help="A directory, sftp://USER@HOST/PATH or s3://BUCKET/PREFIX.")
@click.option("--off", is_flag=True, help="End what --to has begun, behind what waits.")
def ship(target: Target, place: str | None, off: bool) -> None:
    """Ship the running broker's store to a second place, until it stops or starts again.

    A start reads the settings alone: ship.to there is for good. The broker itself reads keys and credentials, from its
    own environment and settings.
    """
    if (place is None) != off:
        raise click.UsageError("expected either --to PLACE or --off")
    if place is None:
        target.ask(ShipOff(), timeout_seconds=None)
        done("nothing is shipped any more")
        return
    named = place if "://" in place else str(Path(place).absolute())  # the broker has a working directory of its own
    target.ask(ShipTo(to=named))
    done("shipping to {}, until the broker stops; ship.to in its settings is what a start reads", named)
