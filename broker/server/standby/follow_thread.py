"""The thread of a standby: it applies what is shipped, and does what else has to be done with the stores.

Only this thread uses them. Others hand it *calls*, which it carries out between two pieces, and one promotion.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeVar, final

import lmdb

from broker.server.recovery import DEFINITIONS_FILE, MESSAGES_DIRECTORY, REPLACED
from storage.ship.place_epochs import Epoch
from storage.ship.place_owner import PlaceOwner
from storage.ship.shipped_chains import ShippedBase, moment
from storage.ship.standby.follow_note import FollowNote
from storage.ship.standby.followed_store import FollowedStore
from storage.ship.targets.ship_target import ShipTarget
from storage.storage_errors import StoreCorrupt, StoreError

log = logging.getLogger("leveret.standby")

T = TypeVar("T")

SLICE_SECONDS = 0.25
"""Time for which pieces are applied before they are committed."""
POLL_SECONDS, POLL_SECONDS_MAX = 0.1, 0.5
"""Time before the next piece is asked for, at first and at most, when there is none."""
LOOK_SECONDS = 2.0
"""Time after which a standby without new pieces looks for chains of later starts."""
HOLE_SECONDS, HOLE_SECONDS_MAX = 10.0, 300.0
"""Time after which it looks whether a piece is missing, at first and at most: the chain is listed for that."""
END_SECONDS = 5.0


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


class _Call(NamedTuple):
    work: Callable[[FollowedStore], Any]
    future: Future[Any]


@final
class FollowThread:
    """Follows one place. `before_close` is called in this thread before stores are closed that others may read."""

    def __init__(
        self,
        followed: FollowedStore,
        target: ShipTarget,
        place: str,
        directory: Path,
        before_close: Callable[[], None],
    ) -> None:
        """`followed` is open already."""
        self._followed = followed
        self._target = target
        self._place = place
        self._directory = directory
        self._before_close = before_close
        self._calls = SimpleQueue[_Call]()
        self._promotion: tuple[bool, Future[Promotion]] | None = None
        self._wake = threading.Event()
        self._ending = self._over = False
        self._giving = threading.Lock()
        """Held while a call is given, or the end is noted: none is given to a thread that has ended."""
        self._poll = POLL_SECONDS
        self._caught_up_at = time.monotonic()
        self._looked_at = self._hole_looked_at = 0.0
        self._hole_seconds = HOLE_SECONDS
        self._stage = "following" if followed.store is not None else "waiting for a base"
        self._problem = ""
        self._thread = threading.Thread(target=self._run, name="leveret-follow", daemon=True)

    # By other threads

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Commit, close the stores, and end. A target that does not answer is not waited for."""
        self._ending = True
        self._wake.set()
        self._thread.join(END_SECONDS)

    def call(self, work: Callable[[FollowedStore], T]) -> T:
        """Carry out a call in the thread; return what it returns, or raise. Raises StoreError if the thread ends."""
        future = Future[T]()
        with self._giving:
            if self._over:
                raise StoreError("the standby ends")
            self._calls.put(_Call(work, future))
        self._wake.set()
        return future.result()

    def promote(self, *, without_place: bool) -> Promotion:
        """Fence the present owner of the place, apply what is left there, and make the stores a broker's.

        Raises StoreError, and OSError if the place does not answer: unless it is to be done `without_place`. Whatever
        is raised, it follows on.
        """
        future = Future[Promotion]()
        with self._giving:
            if self._over or self._promotion is not None:
                raise StoreError("the standby ends, or is being promoted already")
            self._promotion = without_place, future
        self._wake.set()
        return future.result()

    def state(self) -> dict[str, Any]:
        """Return the state, for operators."""
        note = self._followed.note
        return {
            "follows": self._place,
            "stage": self._stage,
            "lag_seconds": round(self._lag(), 3),
            "moment": "" if note is None else moment(note.time),
            "position": "" if note is None else f"{note.boot}:{note.position}",
            "chain": "" if note is None else note.chain,
            "piece": 0 if note is None else note.number,
            "problem": self._problem,
        }

    @property
    def position(self) -> tuple[int, int]:
        """Boot and position of the last change that was applied; zeros before the first base."""
        note = self._followed.note
        return (0, 0) if note is None else (note.boot, note.position)

    def _lag(self) -> float:
        """Return the seconds since all that is at the place was applied, or since what was applied last was sealed."""
        sealed = self._followed.sealed
        since = time.monotonic() - self._caught_up_at
        return max(0.0, since if not sealed else min(since, time.time() - sealed / 1000))

    # In the thread

    def _run(self) -> None:
        try:
            while not self._ending:
                self._wake.clear()
                self._answer_calls()
                if self._promotion is not None and self._promote(*self._promotion):
                    return
                if not self._go_on():
                    self._wake.wait(self._poll)
        finally:
            self._end()

    def _end(self) -> None:
        with self._giving:
            self._over = True
        self._answer_calls()
        try:
            self._before_close()
            self._followed.close()
        except (StoreError, OSError, lmdb.Error, sqlite3.Error):
            log.exception("the stores of the standby could not be closed in order; it goes on from what is on disk")

    def _answer_calls(self) -> None:
        while True:
            try:
                work, future = self._calls.get_nowait()
            except Empty:
                return
            try:
                if self._over:
                    raise StoreError("the standby ends")
                future.set_result(work(self._followed))
            except BaseException as error:  # the caller's, not this thread's
                future.set_exception(error)

    def _go_on(self) -> bool:
        """Apply what is there. False if there is nothing at present, or something went wrong: it is tried again."""
        before = self._followed.note
        try:
            more = self._step()
        except (StoreCorrupt, OSError) as error:
            self._note(error)
            self._poll = LOOK_SECONDS
            return False
        except (StoreError, lmdb.Error, sqlite3.Error) as error:
            self._note(error)
            self._reopen()
            self._poll = LOOK_SECONDS
            return False
        if self._problem:
            log.info("following %s again", self._place)
            self._problem = ""
        applied = self._followed.note is not before
        self._poll = POLL_SECONDS if applied else min(self._poll * 2, POLL_SECONDS_MAX)
        return more

    def _step(self) -> bool:
        """Raises as `FollowedStore` does."""
        followed = self._followed
        if followed.store is None:
            if (base := followed.newer_base()) is None:
                raise StoreError(f"{self._place} has no whole base yet")
            self._take(base)
            return True
        if self._advanced():
            return True
        self._look_around()
        self._caught_up_at = time.monotonic()
        return followed.store is not None and followed.store.tidy()

    def _advanced(self) -> bool:
        """Apply pieces for a while, or take a base behind one that cannot be read. True if there may be more."""
        before = self._followed.note
        try:
            more = self._followed.advance(SLICE_SECONDS)
            if not more and self._followed.note is before:
                self._look_for_hole()
        except StoreCorrupt:
            self._followed.commit()
            base = self._followed.later_base()
            if base is None:
                raise
            self._take(base)
            return True
        if self._followed.note is not before:
            self._followed.commit()
            self._hole_seconds, self._hole_looked_at = HOLE_SECONDS, time.monotonic()
        return more

    def _look_around(self) -> None:
        """Look for a chain of a later start, when that is due."""
        now = time.monotonic()
        if now - self._looked_at < LOOK_SECONDS:
            return
        if (base := self._followed.newer_base()) is not None:
            self._take(base)
        self._looked_at = now  # only now: one that fails is tried again

    def _look_for_hole(self) -> None:
        """Raise StoreCorrupt if the next piece is missing although there are later ones. Seldom: it lists the chain."""
        now = time.monotonic()
        if now - self._hole_looked_at >= self._hole_seconds:
            self._followed.refuse_hole()
            self._hole_looked_at, self._hole_seconds = now, min(self._hole_seconds * 2, HOLE_SECONDS_MAX)

    def _take(self, base: ShippedBase) -> None:
        self._stage = f"reading the base of {moment(base.time)}"
        log.info("%s of %s", self._stage, self._place)
        try:
            prepared = self._followed.prepare(base, self._between_pieces)
            self._before_close()
            self._followed.take(prepared)
        finally:
            self._stage = "following" if self._followed.store is not None else "waiting for a base"

    def _between_pieces(self) -> None:
        self._answer_calls()
        if self._ending:
            raise StoreError("the standby ends")

    def _reopen(self) -> None:
        """Open the stores anew from what is on disk: what was applied and not committed is read again."""
        try:
            self._before_close()
            self._followed.close()
        except (StoreError, OSError, lmdb.Error, sqlite3.Error) as error:
            log.debug("closing the stores of the standby: %s", error)
        try:
            self._followed.open()
        except (StoreError, OSError, lmdb.Error, sqlite3.Error) as error:
            self._note(error)

    def _note(self, error: Exception) -> None:
        """Log a failure, once for each text of it."""
        if str(error) != self._problem:
            log.warning("cannot follow %s at present: %s; it is tried again", self._place, error)
        self._problem = str(error)

    # Promotion

    def _promote(self, without_place: bool, future: Future[Promotion]) -> bool:
        """Carry out a promotion. False if it failed: it follows on."""
        self._promotion = None
        try:
            future.set_result(self._promoted(without_place=without_place))
        except Exception as error:
            log.warning("the promotion failed: %s", error)
            future.set_exception(error)
            return False
        return True

    def _promoted(self, *, without_place: bool) -> Promotion:
        if self._followed.store is None:
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
        return Promotion(self._followed.promote(), fenced, problems)

    def _read_rest(self) -> list[str]:
        """Apply all that the fenced broker has shipped. Returns why not all of it, if so. Raises OSError."""
        try:
            if (base := self._followed.newer_base()) is not None:
                self._take(base)
            while self._followed.advance(SLICE_SECONDS):
                self._followed.commit()
        except StoreCorrupt as error:
            return [f"{error}: up to the last whole change before"]
        return []


def followed_store(target: ShipTarget, place: str, directory: Path) -> FollowedStore:
    """Return the stores of a standby in a data directory; not open yet."""
    return FollowedStore(target, place, directory, MESSAGES_DIRECTORY, DEFINITIONS_FILE, REPLACED)
