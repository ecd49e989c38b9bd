"""Shipping of a running broker: begun at its start by the settings, or later by an operator."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import msgspec
import trio

from broker.admin.protocol import AdministrationError, invalid
from broker.config import Config, ConfigError
from broker.server.commits.committer import Committer
from broker.server.recovery import Stores
from broker.server.shipping import shipping
from broker.server.shipping.shipping import Shipping
from storage.ship.place_owner import Fenced, PlaceOwner
from storage.ship.sealed_piece import StoreName, chain_name
from storage.storage_errors import StoreError

log = logging.getLogger("leveret.ship")


class RunningShipping:
    """The shipping of this broker; at most one place at a time."""

    def __init__(
        self,
        config: Config,
        stores: Stores,
        committer: Committer,
        nursery: trio.Nursery,
        on_fenced: Callable[[Fenced], None],
    ) -> None:
        """The nursery must end before the stores are closed. `on_fenced`: see `Shipping.start`."""
        self._config = config
        self._stores = stores
        self._committer = committer
        self._nursery = nursery
        self._on_fenced = on_fenced
        self._now: Shipping | None = None

    def start(self, owner: PlaceOwner) -> None:
        """Ship to the place of the settings, which was claimed. To be called before anything is committed."""
        self._start(self._config, owner)

    async def begin(self, place: str) -> None:
        """Ship to a place until the broker stops, behind a base. Raises AdministrationError, StoreError."""
        if self._now is not None:
            raise AdministrationError("refused", f"this broker ships to {self._now.place} already{self._remedy()}")
        config = msgspec.structs.replace(self._config, ship=msgspec.structs.replace(self._config.ship, to=place))
        try:
            shipping.check(config)
        except ConfigError as error:
            raise invalid(str(error).replace("ship.to: ", "", 1)) from error
        if not self._stores.messages.journal.numbers_all:
            raise AdministrationError("failed", "there was no room for the journal: free some space and start again")
        messages = self._stores.messages
        boot = StoreName(messages.uuid, messages.origin.timeline, messages.boot)
        self._start(config, await trio.to_thread.run_sync(_claimed, config, boot))

    async def end(self) -> None:
        """Ship what waits, and end what `begin` has begun. Raises AdministrationError."""
        if self._now is None:
            raise AdministrationError("refused", "this broker ships nothing")
        if self._config.ship.to:
            raise AdministrationError("refused", f"this broker ships to {self._now.place}{self._remedy()}")
        ended, self._now = self._now, None
        ended.take_no_more()
        await ended.stop(self._config.shutdown.timeout_seconds)
        log.info("no longer shipping to %s", ended.place)

    async def stop(self, seconds: float) -> None:
        """Ship what waits at the end of the broker; see `Shipping.stop`."""
        if self._now is not None:
            await self._now.stop(seconds)

    def state(self) -> dict[str, Any] | None:
        """Return the state, for operators; None if nothing is shipped."""
        return None if self._now is None else self._now.state()

    def _start(self, config: Config, owner: PlaceOwner) -> None:
        started = Shipping(config.ship, owner, self._stores, self._committer, config.server.directory)
        started.start(self._nursery, self._on_fenced)
        self._now = started

    def _remedy(self) -> str:
        if self._config.ship.to:
            return ", as ship.to in its settings says: change it there, and start again"
        return ": `leveret ship --off` ends that"


def _claimed(config: Config, boot: StoreName) -> PlaceOwner:
    """Return the ownership of a place, claimed. Raises AdministrationError, StoreError, OSError.

    A place takes one chain of a boot: a moment is named by boot and position.
    """
    owner = shipping.opened_owner(config)
    try:
        why = shipping.claim(owner)
        if why:
            raise AdministrationError("failed", f"{owner.target}: {why}")
        if any(name.startswith(str(chain_name(boot, b""))) for name in owner.target.chains()):
            again = "start the broker again, or name another place"
            raise AdministrationError("refused", f"{owner.target} has what was shipped since this start: {again}")
    except (StoreError, AdministrationError, OSError):
        owner.target.close()
        raise
    return owner
