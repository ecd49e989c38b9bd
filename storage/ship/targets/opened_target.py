"""Opens the target that a place names."""

from __future__ import annotations

from pathlib import Path

from storage.ship.targets.directory_target import DirectoryTarget
from storage.ship.targets.ship_target import ShipTarget
from storage.storage_errors import StoreError


class PlaceUnusable(StoreError):
    """A place that cannot be opened as it is written: another setting or another installation is needed."""


def open_target(place: str) -> ShipTarget:
    """Return the target of a place, which is not looked at yet. Whoever opens it closes it. Raises PlaceUnusable."""
    if "://" in place:
        raise PlaceUnusable(f'expected a directory, got "{place}"')
    return DirectoryTarget(Path(place))
