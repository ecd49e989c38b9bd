"""The second place, opened as the settings say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from broker.admin.protocol import AdministrationError
from broker.config import ShipSettings
from storage.ship.targets.opened_target import TargetAccess, open_target
from storage.ship.targets.ship_target import ShipTarget, TargetError


def open_place(settings: ShipSettings, place: str | None = None) -> ShipTarget:
    """Return the target of a place, by default of `ship.to`. It is not looked at yet. Raises PlaceUnusable."""
    access = TargetAccess(settings.sftp_key, settings.sftp_known_hosts, settings.s3_endpoint, settings.s3_region)
    return open_target(settings.to if place is None else place, access)


@contextmanager
def opened_place(settings: ShipSettings, place: str | None = None) -> Iterator[ShipTarget]:
    """Give the target of a place to a command, and close it. What it does not do becomes an AdministrationError."""
    with closing(open_place(settings, place)) as target:
        try:
            yield target
        except TargetError as error:
            raise AdministrationError("failed", f"{target}: {error}") from error
