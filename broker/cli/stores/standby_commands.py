"""`leveret promote`: a stopped broker's directory becomes the one whose broker serves."""

from __future__ import annotations

import click

from broker.cli.table_output import done
from broker.cli.target_broker import Target, targeted
from broker.cli.usage.command_groups import CommandWithExample


@click.command(cls=CommandWithExample, example="--data-dir /var/lib/leveret")
@targeted
def promote(target: Target) -> None:
    """Make the broker of this directory the owner of the second place (ship.to), and fence the present owner.

    That one stops as soon as it looks at the place, and does not start again. A restored directory, or one whose broker
    was fenced, needs this before its broker serves with the same ship.to.
    """
    target.refuse_another_users()
    from broker.server.offline.promotion import promote as take_over

    fenced = take_over(target.config)
    if fenced is not None:
        done("{} is fenced", str(fenced))
    done("{} may serve: `leveret serve`", str(target.directory.absolute()))
