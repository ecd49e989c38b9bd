"""The second place, opened as the settings say."""

from __future__ import annotations

from broker.config import ShipSettings
from storage.ship.targets.opened_target import open_target
from storage.ship.targets.ship_target import ShipTarget


def open_place(settings: ShipSettings, place: str | None = None) -> ShipTarget:
    """Return the target of a place, by default of `ship.to`. It is not looked at yet. Raises PlaceUnusable."""
    return open_target(settings.to if place is None else place)
