"""`leveret backup|restore|check|recover`: copies of a data directory, and what is wrong with one."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from broker.admin.commands.node_admin import Backup
from broker.cli.jobs.progress import progress
from broker.cli.stores.restore_output import show_report
from broker.cli.table_output import counted, done, show_tree
from broker.cli.target_broker import Target, json_option, targeted
from broker.cli.usage.command_groups import CommandWithExample

if TYPE_CHECKING:
    from broker.server.offline.restore_backup import Restored


@click.command(cls=CommandWithExample, example="--data-dir /var/backups/leveret-monday")
@targeted
@json_option
def check(target: Target, as_json: bool) -> None:
    """Verify the stores of a stopped broker: checksums, counters, leftovers.

    Exit code 0 if all is well, 1 if something was found. Nothing is changed.
    """
    from broker.server.offline.offline_commands import check_stores

    report = check_stores(target.config)
    show_tree(report, as_json)
    if report["problems"]:
        sys.exit(1)


@click.command(cls=CommandWithExample, example="--keep 7 /var/backups/leveret")
@targeted
@click.option(
    "--keep",
    type=click.IntRange(1),
    metavar="N",
    help="Make the backup in DIRECTORY, named by the time, and delete all but the newest N of this broker there.",
)
@click.argument("directory", type=click.Path(path_type=Path))
def backup(target: Target, keep: int | None, directory: Path) -> None:
    """Copy both stores, consistent with each other, into the new DIRECTORY, while the broker runs.

    `leveret restore DIRECTORY` brings it back. With --keep the new backup is checked before another one is deleted.
    """
    place = directory.absolute()  # the broker has a working directory of its own
    if keep is None:
        _back_up(target, place)
        return
    from broker.server.offline import kept_backups

    made = place / kept_backups.name_at(datetime.now(UTC))
    _back_up(target, made)
    for deleted in kept_backups.keep_newest(made, keep):
        done("deleted {}", deleted.name)


def _back_up(target: Target, directory: Path) -> None:
    target.run(Backup(directory=str(directory)), timeout_seconds=None)
    done("backup in {}", str(directory))


@click.command(cls=CommandWithExample, example="/var/backups/leveret-monday --replace")
@targeted
@click.option("--replace", is_flag=True, help="Replace existing data, which is kept in a directory beside the new.")
@click.option("--from", "place", metavar="PLACE", help="Restore what was shipped to this place.")
@click.option("--at", default="last", show_default=True, help="With --from: last, a time in UTC, or BOOT:POSITION.")
@click.option(
    "--compare",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIRECTORY",
    help="With --from: the old data directory, to name what is not restored; default: the one that is replaced.",
)
@json_option
@click.argument("backup", type=click.Path(path_type=Path), required=False)
def restore(
    target: Target, replace: bool, place: str | None, at: str, compare: Path | None, as_json: bool, backup: Path | None
) -> None:
    """Replace the data directory of a stopped broker by BACKUP, or by a moment that was shipped (ship.to).

    The backup is checked first. Positions of messages, offsets of streams and numbers of events continue above all that
    the broker has used since the backup.
    """
    target.refuse_another_users()
    if (place is None) == (backup is None):
        if backup is not None:
            raise click.UsageError("--from names what is restored: leave BACKUP out")
        context = click.get_current_context()
        raise click.MissingParameter(ctx=context, param=next(p for p in context.command.params if p.name == "backup"))
    if backup is not None:
        if compare is not None or as_json:
            raise click.UsageError("--compare and --json are for a restore --from a place")
        from broker.server.offline.restore_backup import restore as restore_backup

        _tell_restored(target, restore_backup(target.config, backup, replace=replace))
    elif place is not None:
        _restore_shipped(target, place, at, compare, replace=replace, as_json=as_json)


def _restore_shipped(
    target: Target, place: str, at: str, compare: Path | None, *, replace: bool, as_json: bool
) -> None:
    from broker.server.offline.restore_report import compare_with, report_of
    from broker.server.offline.restore_shipped import restore_shipped

    bar = partial(progress, "pieces", counts=True)
    found = restore_shipped(target.config, place, at, replace=replace, progress=bar)
    old = compare or found.restored.replaced
    compared = None if old is None else compare_with(old, target.directory)
    report = report_of(found, target.directory, max(0.0, time.time() - found.moment.time / 1000), compared)
    if as_json:
        show_tree(report, as_json)
        return
    _tell_restored(target, found.restored)
    show_report(report)


def _tell_restored(target: Target, restored: Restored) -> None:
    done(
        "{}, {} restored into {} (boot {})",
        counted(len(restored.queues), "queue"),
        counted(restored.messages, "message"),
        str(target.directory.absolute()),
        str(restored.boot),
    )
    if restored.replaced is not None:
        done("what was there is in {}; delete it when it is not needed", str(restored.replaced.absolute()))


@click.command(cls=CommandWithExample, example="--accept-loss")
@targeted
@click.option("--accept-loss", is_flag=True, help="Give up what is missing; damaged files are kept beside.")
def recover(target: Target, accept_loss: bool) -> None:
    """Show what is missing in a stopped broker's data directory, so that it does not start.

    With --accept-loss the broker starts without it. Exit code 0 if nothing is missing any more, else 1.
    """
    target.refuse_another_users()
    from broker.server.offline import accept_loss as offline

    if accept_loss:
        lost = offline.accept_loss(target.config)
        done("{}; the broker can be started", lost or "nothing is missing of the journal")
        return
    problems = offline.missing(target.config)
    for problem in problems:
        done("{}", problem)
    if problems:
        sys.exit(1)
    done("nothing is missing")
