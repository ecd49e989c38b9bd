"""The following of a place, step by step: pieces are applied, later bases are looked for, what fails is tried again."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, final

from broker.server.recovery import DEFINITIONS_FILE, MESSAGES_DIRECTORY, REPLACED
from storage.ship.place_epochs import Epoch
from storage.ship.place_owner import PlaceOwner
from storage.ship.shipped_chains import ShippedBase
from storage.ship.shown_moment import moment
from storage.ship.standby.follow_note import FollowNote
from storage.ship.standby.followed_store import FollowedStore
from storage.ship.targets.ship_target import ShipTarget
from storage.storage_errors import StoreCorrupt, StoreError

log = logging.getLogger("leveret.standby")

SLICE_SECONDS = 0.25
"""Time for which pieces are applied before they are committed."""
POLL_SECONDS, POLL_SECONDS_MAX = 0.1, 0.5
"""Time before the next piece is asked for, at first and at most, when there is none."""
LOOK_SECONDS = 2.0
"""Time after which a standby without new pieces looks for chains of later starts, or tries again what failed."""
HOLE_SECONDS, HOLE_SECONDS_MAX = 10.0, 300.0
"""Time after which it looks whether a piece is missing, at first and at most: the chain is listed for that."""


class Promotion(NamedTuple):
    """A promotion that was carried out: how far the place was followed, the epoch fenced, and what was not read."""

    note: FollowNote
    fenced: Epoch | None
    problems: list[str]

    def shown(self) -> dict[str, Any]:
        """Return it as `leveret promote` shows it."""
        return {
            "fenced": "" if self.fenced is None else str(self.fenced),
            "moment": moment(self.note.time),
            "position": f"{self.note.boot}:{self.note.position}",
            "problems": self.problems,
        }


@final
class Follower:
    """Follows a place into a data directory, whose lock the caller has. One thread uses it, but for `state`.

    `before_close` is called before stores are closed that others may read, `between_pieces` during long reading.
    """

    def __init__(
        self,
        target: ShipTarget,
        place: str,
        directory: Path,
        before_close: Callable[[], None],
        between_pieces: Callable[[], None],
    ) -> None:
        self.stores = FollowedStore(target, place, directory, MESSAGES_DIRECTORY, DEFINITIONS_FILE, REPLACED)
        self.poll = POLL_SECONDS
        """Time before the next step, unless a step says that there is more."""
        self._target = target
        self._place = place
        self._directory = directory
        self._before_close = before_close
        self._between_pieces = between_pieces
        self._caught_up_at = time.monotonic()
        self._looked_at = self._hole_looked_at = 0.0
        self._hole_seconds = HOLE_SECONDS
        self._base = ""
        """The base that is being read; empty if none is."""
        self._problem = ""

    def state(self) -> dict[str, Any]:
        """Return the state, for operators. From any thread."""
        note = self.stores.note
        waiting = "waiting for a base" if note is None else "following"
        return {
            "follows": self._place,
            "stage": self._base or waiting,
            "lag_seconds": round(self._lag(), 3),
            "moment": "" if note is None else moment(note.time),
            "position": "" if note is None else f"{note.boot}:{note.position}",
            "chain": "" if note is None else note.chain,
            "piece": 0 if note is None else note.number,
            "problem": self._problem,
        }

    def _lag(self) -> float:
        """Return the seconds since all that is at the place was applied, or since what was applied last was sealed."""
        sealed = self.stores.sealed
        since = time.monotonic() - self._caught_up_at
        return max(0.0, since if not sealed else min(since, time.time() - sealed / 1000))

    def step(self) -> bool:
        """Apply what is there. False if there is nothing at present, or something went wrong: it is tried again."""
        before = self.stores.note
        try:
            more = self._step()
        except (StoreCorrupt, OSError) as error:
            self._note(error)
            self.poll = LOOK_SECONDS
            return False
        except StoreError as error:
            self._note(error)
            self._reopen()
            self.poll = LOOK_SECONDS
            return False
        if self._problem:
            log.info("following %s again", self._place)
            self._problem = ""
        self.poll = POLL_SECONDS if self.stores.note is not before else min(self.poll * 2, POLL_SECONDS_MAX)
        return more

    def close(self) -> None:
        """Commit, and close the stores. What goes wrong is logged: it goes on from what is on disk."""
        try:
            self._before_close()
            self.stores.close()
        except (StoreError, OSError) as error:
            log.warning("the stores of the standby could not be closed in order: %s", error)

    def promote(self, *, without_place: bool) -> Promotion:
        """Fence the present owner of the place, apply what is left there, and make the stores a broker's.

        Raises StoreError, and OSError if the place does not answer: unless it is to be done `without_place`. Whatever
        is raised, it follows on.
        """
        if self.stores.store is None:
            raise StoreError(f"there is nothing to serve: no base of {self._place} was read yet")
        problems, fenced = list[str](), None
        try:
            fenced = PlaceOwner(self._target, self._place, self._directory).take_over()
            problems += self._read_rest()
        except OSError as error:
            if not without_place:
                raise
            problems.append(f"{self._place}: {error}")
        self._before_close()
        return Promotion(self.stores.promote(), fenced, problems)

    def _step(self) -> bool:
        """Raises as `FollowedStore` does."""
        stores = self.stores
        if stores.store is None:
            if (base := stores.newer_base()) is None:
                raise StoreError(f"{self._place} has no whole base yet")
            self._take(base)
            return True
        if self._advanced():
            return True
        self._look_around()
        self._caught_up_at = time.monotonic()
        return stores.tidy()

    def _advanced(self) -> bool:
        """Apply pieces for a while, or take a base behind one that cannot be read. True if there may be more."""
        before = self.stores.note
        try:
            more = self.stores.advance(SLICE_SECONDS)
            if not more and self.stores.note is before:
                self._look_for_hole()
        except StoreCorrupt as error:
            self._take_behind(error)
            return True
        if self.stores.note is not before:
            self.stores.commit()
            self._hole_seconds, self._hole_looked_at = HOLE_SECONDS, time.monotonic()
        return more

    def _look_around(self) -> None:
        """Look for a chain of a later start, when that is due."""
        now = time.monotonic()
        if now - self._looked_at < LOOK_SECONDS:
            return
        if (base := self.stores.newer_base()) is not None:
            self._take(base)
        self._looked_at = now  # only now: one that fails is tried again

    def _look_for_hole(self) -> None:
        """Raise StoreCorrupt if the next piece is missing although there are later ones. Seldom: it lists the chain."""
        now = time.monotonic()
        if now - self._hole_looked_at >= self._hole_seconds:
            self.stores.refuse_hole()
            self._hole_looked_at, self._hole_seconds = now, min(self._hole_seconds * 2, HOLE_SECONDS_MAX)

    def _take(self, base: ShippedBase) -> None:
        self._base = f"reading the base of {moment(base.time)}"
        log.info("%s of %s", self._base, self._place)
        try:
            prepared = self.stores.prepare(base, self._between_pieces)
            self._before_close()
            self.stores.take(prepared)
        finally:
            self._base = ""

    def _read_rest(self) -> list[str]:
        """Apply all that the fenced broker has shipped. Returns why not all of it, if so. Raises OSError."""
        try:
            if (base := self.stores.newer_base()) is not None:
                self._take(base)
            while not self._at_end():
                pass  # a base was taken, behind which there is more
            self._target.chains()  # a directory that is not mounted any more has no next piece either: that raises
        except StoreCorrupt as error:
            return [f"{error}: up to the last whole change before"]
        return []

    def _at_end(self) -> bool:
        """Apply the pieces that are left. False if a base was taken behind one that cannot be read or is missing."""
        try:
            while self.stores.advance(SLICE_SECONDS):
                self.stores.commit()
            self.stores.refuse_hole()
        except StoreCorrupt as error:
            self._take_behind(error)
            return False
        return True

    def _take_behind(self, error: StoreCorrupt) -> None:
        """Take the newest base behind what was read, as the chain cannot be read on; raise the error without one."""
        self.stores.commit()
        base = self.stores.later_base()
        if base is None:
            raise error
        self._take(base)

    def _reopen(self) -> None:
        """Open the stores once more as they are on disk: what was applied and not committed is read again."""
        self.close()
        try:
            self.stores.open()
        except (StoreError, OSError) as error:
            self._note(error)

    def _note(self, error: Exception) -> None:
        """Log a failure, once for each text of it."""
        if str(error) != self._problem:
            log.warning("cannot follow %s at present: %s; it is tried again", self._place, error)
        self._problem = str(error)
