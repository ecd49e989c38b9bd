"""`leveret backup|restore|check|recover`: copies of a data directory, and what is wrong with one."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

import click

from broker.admin.commands.node_admin import Backup
from broker.cli.table_output import counted, done, show_tree
from broker.cli.target_broker import Target, json_option, targeted
from broker.cli.usage.command_groups import CommandWithExample


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
@click.argument("backup", type=click.Path(path_type=Path))
def restore(target: Target, replace: bool, backup: Path) -> None:
    """Replace the data directory of a stopped broker by BACKUP.

    The backup is checked first. Positions of messages, offsets of streams and numbers of events continue above all that
    the broker has used since the backup.
    """
    target.refuse_another_users()
    from broker.server.offline.restore_backup import restore as restore_backup

    restored = restore_backup(target.config, backup, replace=replace)
    done(
        "{}, {} restored into {} (boot {})",
        counted(restored.queues, "queue"),
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
