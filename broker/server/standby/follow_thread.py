"""The thread that follows a place. Only it uses the stores: others hand it calls, which it makes between two pieces."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeVar, final

from broker.server.standby.follower import Follower, Promotion
from storage.ship.standby.followed_store import FollowedStore
from storage.ship.targets.ship_target import ShipTarget
from storage.storage_errors import StoreError

log = logging.getLogger("leveret.standby")

T = TypeVar("T")

END_SECONDS = 5.0
ENDS = "the standby ends"


class _Call(NamedTuple):
    work: Callable[[FollowedStore], Any]
    future: Future[Any]


@final
class FollowThread:
    """Follows a place into a data directory, whose lock the caller has.

    Called in this thread: `before_close` before stores are closed that others may read, `on_failure` with an unforeseen
    exception that ends it.
    """

    def __init__(
        self,
        target: ShipTarget,
        place: str,
        directory: Path,
        before_close: Callable[[], None] = lambda: None,
        on_failure: Callable[[Exception], None] = lambda _error: None,
    ) -> None:
        self._follower = Follower(target, place, directory, before_close, self._between_pieces)
        self._place = place
        self._on_failure = on_failure
        self._calls = SimpleQueue[_Call]()
        self._promotion: tuple[bool, Future[Promotion]] | None = None
        self._wake = threading.Event()
        self._ending = self._over = False
        self._giving = threading.Lock()
        """Held while a call is given, or the end is noted: none is given to a thread that has ended."""
        self._thread = threading.Thread(target=self._run, name="leveret-follow", daemon=True)

    # By other threads

    def start(self) -> None:
        """Open the stores that are there, and start the thread. Raises StoreError and OSError."""
        self._follower.stores.open()
        self._thread.start()

    def stop(self) -> None:
        """Commit, close the stores, and end. A target that does not answer is not waited for."""
        self._ending = True
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(END_SECONDS)

    def call(self, work: Callable[[FollowedStore], T]) -> T:
        """Make a call in the thread; return what it returns, or raise. Raises StoreError if the thread ends."""
        future = Future[T]()
        with self._giving:
            if self._over:
                raise StoreError(ENDS)
            self._calls.put(_Call(work, future))
        self._wake.set()
        return future.result()

    def promote(self, *, without_place: bool) -> Promotion:
        """Have the follower promoted, behind a base that is being read. Raises as `Follower.promote` does."""
        future = Future[Promotion]()
        with self._giving:
            if self._over or self._promotion is not None:
                raise StoreError(f"{ENDS}, or is being promoted already")
            self._promotion = without_place, future
        self._wake.set()
        return future.result()

    def state(self) -> dict[str, Any]:
        """Return the state, for operators."""
        return self._follower.state()

    @property
    def position(self) -> tuple[int, int]:
        """Boot and position of the last change that was applied; zeros before the first base."""
        note = self._follower.stores.note
        return (0, 0) if note is None else (note.boot, note.position)

    # In the thread

    def _run(self) -> None:
        try:
            while not self._ending:
                self._wake.clear()
                self._make_calls()
                if self._promotion is not None and self._promote(*self._promotion):
                    return
                if not self._follower.step():
                    self._wake.wait(self._follower.poll)
        except Exception as error:
            log.exception("following %s ended", self._place)
            self._on_failure(error)
        finally:
            self._end()

    def _end(self) -> None:
        with self._giving:
            self._over = True
        self._make_calls()
        if self._promotion is not None:
            self._promotion[1].set_exception(StoreError(ENDS))
        self._follower.close()

    def _make_calls(self) -> None:
        while True:
            try:
                work, future = self._calls.get_nowait()
            except Empty:
                return
            try:
                if self._over:
                    raise StoreError(ENDS)
                future.set_result(work(self._follower.stores))
            except BaseException as error:  # the caller's, not this thread's
                future.set_exception(error)

    def _between_pieces(self) -> None:
        self._make_calls()
        if self._ending:
            raise StoreError(ENDS)

    def _promote(self, without_place: bool, future: Future[Promotion]) -> bool:
        """Carry out a promotion. False if it failed: it follows on."""
        self._promotion = None
        try:
            future.set_result(self._follower.promote(without_place=without_place))
        except Exception as error:
            log.warning("the promotion failed: %s", error)
            future.set_exception(error)
            return False
        return True
