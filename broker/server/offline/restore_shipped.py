"""`leveret restore --from`: replaces the contents of a data directory by a moment that was shipped."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from broker.admin.protocol import AdministrationError, invalid
from broker.config import Config
from broker.server.offline.restore_backup import Restored, replace_contents
from broker.server.recovery import DEFINITIONS_FILE, MESSAGES_DIRECTORY
from broker.server.shipping.second_place import opened_place
from storage.ship.restored_moment import Moment, Progress, RestoredMoment, restore_moment
from storage.ship.targets.ship_target import ShipTarget

LAST = "last"


class RestoredShipped(NamedTuple):
    """Contents of the directory, and the moment that was restored."""

    restored: Restored
    moment: RestoredMoment


def restore_shipped(config: Config, place: str, at: str, *, replace: bool, progress: Progress) -> RestoredShipped:
    """Restore a moment from the place that a broker has shipped to. `at`: see `parse_moment`.

    Raises AdministrationError, StoreLocked, StoreError if there is no base for the moment, and OSError; the data
    directory is then unchanged.
    """
    wanted = parse_moment(at)
    moments: list[RestoredMoment] = []
    with opened_place(config.ship, place) as target:
        _look_at(target)

        def fill(fresh: Path) -> None:
            files = fresh / MESSAGES_DIRECTORY, fresh / DEFINITIONS_FILE
            moments.append(restore_moment(target, wanted, *files, progress))

        restored = replace_contents(config, str(target), fill, replace=replace)
    return RestoredShipped(restored, moments[0])


def _look_at(target: ShipTarget) -> None:
    try:
        target.chains()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise AdministrationError("not_found", f"{target} is no directory: name the place of ship.to") from error


def parse_moment(text: str) -> Moment:
    """Return the moment of a text: `last`, a time as in ISO 8601 (UTC if it has no offset), or BOOT:POSITION.

    Raises AdministrationError.
    """
    if text == LAST:
        return Moment()
    boot, colon, position = text.partition(":")
    if colon and boot.isdecimal() and position.isdecimal():
        return Moment(boot=int(boot), position=int(position))
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise invalid(
            f"--at: expected last, a time such as 2026-11-28T12:30:00, or BOOT:POSITION, got {text!r}"
        ) from None
    return Moment(time=int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000))
