"""`leveret follow|promote`: a standby of a broker that is shipped to a second place."""

from __future__ import annotations

import gc
import os
import sys
import time
from typing import Any

import click

from broker.admin.commands.node_admin import Promote, Status
from broker.admin.protocol import AdministrationError, NotRunning
from broker.cli.named_directory import data_directory_options, named
from broker.cli.table_output import done
from broker.cli.target_broker import Target, targeted
from broker.cli.usage.command_groups import CommandWithExample
from broker.config import ConfigError
from broker.logs import set_up
from broker.settings_loader import load

READY_SECONDS = 60.0
"""Longest time from a promotion to the broker's first answer."""
LOOK_SECONDS = 0.02


@click.command(
    cls=CommandWithExample, example="--from /mnt/other/leveret --data-dir /var/lib/leveret", elsewhere="standby"
)
@data_directory_options
@click.option("--from", "place", metavar="PLACE", help="The place that a broker is shipped to; default: ship.to.")
@click.option("--listen", multiple=True, metavar="HOST:PORT", help="Address for AMQP once promoted; may be repeated.")
@click.option(
    "--management-listen",
    multiple=True,
    metavar="HOST:PORT",
    help="Address of the HTTP API, or `off`; may be repeated.",
)
@click.option(
    "--prometheus-listen", multiple=True, metavar="HOST:PORT", help="Address of metrics, or `off`; may be repeated."
)
def follow(
    place: str | None, listen: tuple[str, ...], management_listen: tuple[str, ...], prometheus_listen: tuple[str, ...]
) -> None:
    """Follow a broker that is shipped to PLACE into a data directory of its own, ready to take its place.

    It answers `status`, `list`, `inspect` and the HTTP API, read-only. `leveret promote` alone makes it the broker, in
    the same process; when it is started again after that, it is the broker.
    """
    it = named()
    config = load(
        it.config,
        os.environ,
        data_dir=it.data_dir,
        listen=listen,
        management_listen=management_listen,
        prometheus_listen=prometheus_listen,
    )
    followed = place or config.ship.to
    if not followed:
        raise ConfigError("nothing to follow: name the place with --from, or in ship.to")
    set_up(config.logs)
    settings_files = [it.config] if it.config else []
    gc.disable()  # what is loaded stays: looking for cycles in it takes a twentieth of the start
    from broker.server.serve import run
    from broker.server.standby.standby_node import follow as follow_until_promoted

    gc.enable()
    if follow_until_promoted(config, followed):
        sys.exit(run(config, settings_files=settings_files))


@click.command(cls=CommandWithExample, example="--data-dir /var/lib/leveret")
@targeted
@click.option(
    "--without-place", is_flag=True, help="Of a standby: also if the place does not answer. Fences nobody then."
)
def promote(target: Target, without_place: bool) -> None:
    """Make a standby, or a stopped broker's directory, the owner of the second place, and fence the present owner.

    That one stops as soon as it looks at the place, and does not start again. A standby reads what is left there, and
    is the broker when the command ends. A restored directory, or one whose broker was fenced, needs this before its
    broker serves with the same ship.to.
    """
    try:
        _tell_promoted(target, target.ask(Promote(without_place=without_place), timeout_seconds=None))
    except NotRunning:
        _promote_stopped(target, without_place=without_place)


def _tell_promoted(target: Target, answer: dict[str, Any]) -> None:
    _tell(answer)
    deadline = time.monotonic() + READY_SECONDS
    while not _serves(target):
        if time.monotonic() > deadline:
            raise AdministrationError("failed", f"the broker on {target.directory} does not answer: see its log")
        time.sleep(LOOK_SECONDS)
    done("{} is the broker now", str(target.directory.absolute()))


def _tell(answer: dict[str, Any]) -> None:
    if answer["fenced"]:
        done("{} is fenced", answer["fenced"])
    if answer["position"]:
        done("followed up to {}, position {}", answer["moment"], answer["position"])
    for problem in answer["problems"]:
        done("not read: {}", problem)


def _serves(target: Target) -> bool:
    try:
        return "standby" not in target.ask(Status())
    except (NotRunning, AdministrationError):
        return False


def _promote_stopped(target: Target, *, without_place: bool) -> None:
    target.refuse_another_users()
    from broker.server.offline.promotion import promote as take_over

    _tell(take_over(target.config, without_place=without_place))
    done("{} may serve: `leveret serve`", str(target.directory.absolute()))
