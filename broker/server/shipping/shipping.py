"""Shipping of one boot, as the event loop knows it: `ShipThread` does the work."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import trio

from broker.config import Config, ConfigError, ShipSettings
from broker.server.commits.committer import Committer
from broker.server.commits.held_confirms import HeldConfirms
from broker.server.recovery import Stores
from broker.server.shipping.second_place import open_place
from broker.server.shipping.ship_thread import ShipRules, ShipThread
from storage.ship.place_owner import Fenced, PlaceOwner, refuse_fenced
from storage.ship.retention import ShipRetention
from storage.ship.ship_buffer import ShipBuffer
from storage.ship.targets.opened_target import PlaceUnusable
from storage.storage_errors import StoreError

log = logging.getLogger("leveret.ship")

CLAIM_SECONDS = 5.0
"""Time in which a start waits for the target to say who owns it."""
STOP_SHARE = 0.3
"""Share of the stop's time in which what waits is shipped."""


def check(config: Config) -> None:
    """Raise ConfigError for settings with which nothing can be shipped."""
    if not config.ship.to:
        if config.ship.confirm == "shipped":
            raise ConfigError('ship.confirm: "shipped" needs a place to ship to, and ship.to is empty')
        return
    try:
        open_place(config.ship).close()
    except PlaceUnusable as error:
        raise ConfigError(f"ship.to: {error}") from error
    if not config.store.journal_bytes:
        raise ConfigError("ship.to: shipping needs the journal, and store.journal_bytes is 0")
    if config.testing.enabled:
        raise ConfigError("ship.to: nothing is shipped with testing.enabled, by which the store is exchanged")


def owner_of(config: Config) -> PlaceOwner | None:
    """Return the ownership of the place to ship to, claimed; None if nothing is shipped. The directory is locked.

    A target that does not answer is asked again by the thread that ships. Raises StoreError if another broker owns the
    place, or the directory's broker was fenced before.
    """
    directory = config.server.directory
    refuse_fenced(directory)
    if not config.ship.to:
        return None
    owner = opened_owner(config)
    why = claim(owner)
    if why:
        log.warning("%s does not say which broker owns it (%s): serving, and it is asked again", owner.target, why)
    return owner


def opened_owner(config: Config) -> PlaceOwner:
    """Return the ownership of the place to ship to, which is not claimed yet. Raises PlaceUnusable."""
    return PlaceOwner(open_place(config.ship), config.ship.to, config.server.directory)


def claim(owner: PlaceOwner) -> str:
    """Claim a place. Returns why it could not be asked in time; empty if it was. Raises StoreError."""
    failures: list[Exception] = []

    def claiming() -> None:
        try:
            owner.claim()
        except (StoreError, OSError) as error:
            failures.append(error)

    # A network file system may never answer: no thread can be ended from outside.
    thread = threading.Thread(target=claiming, name="leveret-ship-claim", daemon=True)
    thread.start()
    thread.join(CLAIM_SECONDS)
    if failures and isinstance(failures[0], StoreError):
        raise failures[0]
    if owner.epoch:
        return ""
    return str(failures[0]) if failures else "no answer"


class Shipping:
    """Ships both stores to `settings.to`, from `start` to `stop`."""

    def __init__(
        self, settings: ShipSettings, owner: PlaceOwner, stores: Stores, committer: Committer, directory: Path
    ) -> None:
        """`owner`: of the place, claimed if it answered."""
        self._settings = settings
        self._owner = owner
        self._stores = stores
        self._committer = committer
        self._token = trio.lowlevel.current_trio_token()
        self._catching_up = trio.CancelScope()
        self._ended = False
        confirming = settings.confirm == "shipped"
        on_safe = self._tell_committer if confirming else None
        self._buffer = ShipBuffer(settings.buffer_bytes, lambda: self._thread.abort_base(), on_safe)
        self._held = HeldConfirms(self._buffer) if confirming else None
        if self._held is not None:
            committer.held_confirms = committer.broker.batches.held = self._held
        retention = ShipRetention(settings.kept_seconds, settings.kept_bases)
        rules = ShipRules(
            settings.piece_seconds,
            settings.piece_bytes,
            settings.base_seconds,
            settings.base_records_bytes,
            settings.bytes_per_second_max,
            retention,
            settings.confirm_seconds,
        )
        self._thread = ShipThread(
            stores.messages, stores.definitions, owner.target, rules, self._buffer, directory, self._catch_up
        )

    def start(self, nursery: trio.Nursery, on_fenced: Callable[[Fenced], None]) -> None:
        """Ship all that is committed from now on, behind a base, which has all that was before.

        The nursery must end before the stores are closed. `on_fenced` is called in the event loop.
        """
        if not self._stores.messages.journal.numbers_all:
            held = ", and confirms wait" if self._held is not None else ""
            log.error("nothing is shipped%s: there was no room for the journal; free some space and start again", held)
            self._thread.cannot("there is no journal: free some space and start again")
            return
        self._stores.messages.journal.on_durable = self._buffer.batch
        self._stores.definitions.on_durable = self._buffer.definitions
        self._thread.start(self._owner, lambda error: self._token.run_sync_soon(on_fenced, error))
        nursery.start_soon(self._end_with_nursery)
        held = ", and confirms wait for it" if self._held is not None else ""
        log.info("shipping to %s%s", self._settings.to, held)

    @property
    def place(self) -> str:
        """The place, as it was named."""
        return self._settings.to

    def take_no_more(self) -> None:
        """Ship nothing of what is committed from now on."""
        self._stores.messages.journal.on_durable = None
        self._stores.definitions.on_durable = None

    async def stop(self, seconds: float) -> None:
        """Ship what waits, and end, in a share of `seconds`. Nothing is committed any more."""
        self._end_waits()
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(self._thread.stop, seconds * STOP_SHARE)

    async def _end_with_nursery(self) -> None:
        """End the thread in any case: it must not read stores that are closed."""
        try:
            await trio.sleep_forever()
        finally:
            self._end_waits()
            self._thread.stop(0.0)

    def _end_waits(self) -> None:
        self._ended = True
        self._catching_up.cancel()

    def state(self) -> dict[str, Any]:
        """Return the state of shipping, for operators."""
        state = self._thread.state()
        return {
            "to": self._settings.to,
            "lag_seconds": round(state.lag.seconds, 3),
            "lag_messages": state.lag.messages,
            "lag_bytes": state.lag.bytes,
            "bases": state.bases,
            "pieces": state.pieces,
            "bytes": state.bytes,
            "chain": state.chain,
            "position": state.position,
            "epoch": self._owner.epoch,
            "confirm": self._settings.confirm,
            "confirm_wait_seconds": 0.0 if self._held is None else round(self._held.seconds(), 3),
            "problem": state.problem,
        }

    def _tell_committer(self) -> None:
        """Have the event loop send confirms; called by the thread."""
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._committer.shipped, idempotent=True)

    def _catch_up(self) -> None:
        """Return when LMDB has all batches that are on disk; called by the thread. Raises StoreError."""
        try:
            trio.from_thread.run(self._caught_up, trio_token=self._token)
        except (trio.RunFinishedError, trio.Cancelled) as error:
            raise StoreError("the broker stops") from error

    async def _caught_up(self) -> None:
        if not self._ended:
            with trio.CancelScope() as self._catching_up:
                await self._committer.catch_up()
                return
        raise StoreError("the broker stops")
