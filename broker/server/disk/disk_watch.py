"""Watches for a disk that hangs: a write or sync that does not come back.

A thread does, because the event loop may be the one that waits: it writes small batches and lone changes itself. While
it does not come round, the thread also answers its callers (`stalled_answers`). It looks at intervals, and a time in
which it could not look itself counts little: a process that was stopped, or a machine that was suspended, is no disk
that hangs. While nothing is written it sleeps, and the next write wakes it.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from time import perf_counter

import trio

from broker.server.disk.stalled_answers import StalledAnswers
from storage.pending_sync import PendingSync

log = logging.getLogger("leveret.disk")

LOOK_SECONDS = 1.0
"""Longest interval between two looks."""
LOOKS_MIN = 4
"""Looks within the time after which a disk counts as hanging."""
QUIET_LOOKS = 3
"""Looks without a write after which the thread sleeps."""
END_SECONDS = 1.0


class _Wait:
    """The seconds for which something has not come back, as far as looks tell."""

    def __init__(self) -> None:
        self._number = 0
        self.seconds = 0.0

    def look(self, number: int, since_last: float, *, pending: bool) -> None:
        """Note the number of the present one, and whether it is still under way."""
        self.seconds = self.seconds + since_last if pending and number == self._number else 0.0
        self._number = number


class _Ping:
    """A call that the event loop carries out, again and again."""

    def __init__(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self.sent = self.answered = 0

    def send(self) -> None:
        """Send the next one, unless one is on its way."""
        if self.sent == self.answered:
            self.sent += 1
            try:
                self._token.run_sync_soon(self._answer)
            except trio.RunFinishedError:
                self.answered = self.sent

    def _answer(self) -> None:
        self.answered = self.sent


class DiskWatch:
    """Says whether the disk under these files hangs: a write has not come back for `seconds`."""

    def __init__(self, syncs: Iterable[PendingSync], seconds: float) -> None:
        self._waits = {sync: _Wait() for sync in syncs}
        self._of_loop = _Wait()
        self._looked_at = 0.0
        self._seconds = seconds
        self._interval = min(LOOK_SECONDS, seconds / LOOKS_MIN)
        self._woken = threading.Event()
        self._ended = False
        self._reason = ""
        self._reported = 0.0

    def hangs(self) -> str:
        """Return the file that the disk does not answer for, and for how long; empty while it answers."""
        return self._reason

    def pending_seconds(self) -> dict[str, float]:
        """Return the seconds for which the present write has been under way, by file; 0.0 without one."""
        now = perf_counter()
        return {sync.file: round(now - since, 3) if (since := sync.since) else 0.0 for sync in self._waits}

    @contextmanager
    def running(self, http: Iterable[socket.socket], operators: socket.socket) -> Iterator[None]:
        """Watch meanwhile. While the event loop waits for the disk, callers of these listening sockets are answered."""
        answers = StalledAnswers(http, operators, self.hangs, self.pending_seconds)
        thread = threading.Thread(
            target=self._run, args=(_Ping(), answers.answer_for), name="leveret-disk-watch", daemon=True
        )
        thread.start()
        try:
            yield
        finally:
            self._ended = True
            self._woken.set()
            thread.join(END_SECONDS)

    # In the thread

    def _run(self, ping: _Ping, answer_for: Callable[[float], None]) -> None:
        quiet = 0
        while not self._ended:
            before = self._written()
            if self._look(ping):
                answer_for(self._interval)
            else:
                self._pause()
            quiet = quiet + 1 if self._written() == before and not self._pending() else 0
            if quiet >= QUIET_LOOKS and not self._reason and ping.sent == ping.answered:
                self._sleep(before)

    def _look(self, ping: _Ping) -> bool:
        """Look once, and say in the log what has changed. True if the event loop waits for the disk."""
        now = perf_counter()
        since_last, self._looked_at = min(now - self._looked_at, 2 * self._interval), now
        for sync, wait in self._waits.items():
            wait.look(sync.number, since_last, pending=sync.since > 0)
        self._of_loop.look(ping.sent, since_last, pending=ping.sent != ping.answered)
        ping.send()
        longest = max(self._waits, key=lambda sync: self._waits[sync].seconds)
        of_disk, of_loop = self._waits[longest].seconds, self._of_loop.seconds
        if of_disk >= self._seconds:
            self._note(f"{longest.file}: a write has not come back for {of_disk:.1f} s: the disk hangs", of_disk)
        elif of_loop >= self._seconds:
            self._note(f"the event loop has not come round for {of_loop:.1f} s", of_loop)
        else:
            self._note("", 0.0)
        return of_loop >= self._seconds

    def _note(self, reason: str, seconds: float) -> None:
        before, self._reason = self._reason, reason
        if reason and not before:
            log.error("%s; the limit is %g s (disk.hang_seconds)", reason, self._seconds)
        elif before and not reason:
            log.warning("the disk answers again after %.1f s", self._reported)
        self._reported = seconds

    def _pause(self) -> None:
        """Wait for an interval; less, once, if a write meant to wake this thread as it woke."""
        if self._woken.wait(self._interval) and not self._ended:
            self._woken.clear()

    def _written(self) -> int:
        return sum(sync.number for sync in self._waits)

    def _pending(self) -> bool:
        return any(sync.since for sync in self._waits)

    def _sleep(self, written: int) -> None:
        """Sleep until something is written. `written` is the number of writes that were seen."""
        for sync in self._waits:
            sync.wake = self._woken.set
        if self._written() == written:  # else one has begun before it could wake anybody
            self._woken.wait()
        for sync in self._waits:
            sync.wake = None
        if not self._ended:
            self._woken.clear()
