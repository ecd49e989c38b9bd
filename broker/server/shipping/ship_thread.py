"""The thread that ships: it seals the records that wait into pieces, and makes bases between them.

Nothing waits for it, but confirms where the settings want that. A target that does not answer is tried again; when too
much waits, the records are dropped, and a new base is made once the target answers (`ShipBuffer`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec

from storage.definitions.definition_store import DefinitionStore
from storage.messages.message_store import MessageStore
from storage.ship.base_copy import SCRATCH, BaseCopy
from storage.ship.piece_writer import PieceWriter
from storage.ship.place_owner import Fenced, PlaceOwner
from storage.ship.retention import ShipRetention, remove_expired
from storage.ship.sealed_piece import PieceKind, StoreName
from storage.ship.ship_buffer import ShipBuffer, ShipLag
from storage.ship.shipped_chains import BaseEnd, chains_of_store
from storage.ship.shipped_records import pack
from storage.ship.targets.ship_target import PieceExists, ShipTarget
from storage.storage_errors import StoreError, StoreIncompatible

log = logging.getLogger("leveret.ship")

RETRY_SECONDS, RETRY_SECONDS_MAX = 0.5, 15.0
"""Time before a piece, or a base, is tried again, at first and at most. Each failure doubles it."""
END_SECONDS = 0.5
"""Time in which a thread that writes nothing more ends."""
FENCE_SECONDS = 2.0
"""Time after which an idle broker looks whether it is fenced; a busy one looks behind each piece."""
REMOVED_AT_ONCE = 32
"""Expired pieces that are removed between two pieces."""


class ShipRules(NamedTuple):
    """Rules by which pieces are sealed, bases are made, and old ones are kept.

    A base is due after `base_seconds`, or when the records behind it have `base_records_bytes`, and more than it has.
    `bytes_per_second` 0: no limit. `confirm_seconds`: between two pieces that are sealed because a confirm waits.
    """

    piece_seconds: float
    piece_bytes: int
    base_seconds: float
    base_records_bytes: int
    bytes_per_second: int
    retention: ShipRetention
    confirm_seconds: float = 0.0


class ShipState(NamedTuple):
    """Shipping at one moment. `problem`: why nothing is written at present; empty if all is well."""

    lag: ShipLag
    bases: int
    pieces: int
    bytes: int
    chain: str
    position: int
    problem: str


class _Ended(Exception):
    """The broker stops."""


class ShipThread:
    """Ships one boot, and closes the target.

    `catch_up` returns when LMDB has all batches that were on disk when it was called.
    """

    def __init__(
        self,
        messages: MessageStore,
        definitions: DefinitionStore,
        target: ShipTarget,
        rules: ShipRules,
        buffer: ShipBuffer,
        scratch: Path,
        catch_up: Callable[[], None],
    ) -> None:
        self._messages = messages
        self._definitions = definitions
        self._target = target
        self._rules = rules
        self._buffer = buffer
        self._scratch = scratch / SCRATCH
        self._catch_up = catch_up
        self._store = StoreName(messages.uuid, messages.origin.timeline, messages.boot)
        self._writer = PieceWriter(target, self._store)
        self._ending = threading.Event()
        self._ended = False
        self._base: BaseCopy | None = None
        self._base_bytes = self._log_bytes = 0
        self._base_at = self._base_not_before = self._shipped_at = 0.0
        """Times at which the last base was begun, the next may be, and records were shipped last."""
        self._base_retry_seconds = RETRY_SECONDS
        """Time before the next try of a base that could not be made."""
        self._bases = self._bytes = self._position = 0
        self._problem = "no base is shipped yet"
        self._removing: Iterator[None] = iter(())
        self._owner: PlaceOwner | None = None
        self._on_fenced: Callable[[Fenced], None] = lambda _error: None
        self._thread = threading.Thread(target=self._run, name="leveret-ship", daemon=True)

    def start(self, owner: PlaceOwner | None = None, on_fenced: Callable[[Fenced], None] = lambda _error: None) -> None:
        """Start the thread. It ends when the `owner` is it no more, and calls `on_fenced`."""
        self._owner, self._on_fenced = owner, on_fenced
        self._thread.start()

    def cannot(self, problem: str) -> None:
        """Note why it is not started."""
        self._problem, self._ended = problem, True
        self._target.close()

    def stop(self, seconds: float) -> None:
        """Ship what waits within this time, and end. The stores may be closed then. It may be called again."""
        if self._ended:
            return
        self._ended = True
        self._buffer.close()
        self._thread.join(seconds)
        self._ending.set()
        self.abort_base()
        self._thread.join(END_SECONDS)
        lag = self._buffer.lag()
        if lag.bytes or not self._bases:
            log.warning(
                "stopping with the last %.1f s not shipped to %s (%s)", lag.seconds, self._target, self._problem
            )

    def abort_base(self) -> None:
        """End a copy of the store that is being made: LMDB keeps all pages of its moment. From any thread."""
        base = self._base
        if base is not None:
            base.abort()

    def state(self) -> ShipState:
        """Return the state of this moment. From any thread."""
        pieces, chain = self._writer.number, self._writer.chain
        return ShipState(self._buffer.lag(), self._bases, pieces, self._bytes, chain, self._position, self._problem)

    # In the thread

    def _run(self) -> None:
        try:
            self._enter()
            while not self._buffer.closed:
                self._go_on()
            while self._bases and self._buffer.waiting_bytes and not self._buffer.dropping:
                self._ship_records()
        except _Ended:
            log.debug("shipping ended with the broker")
        except Fenced as error:
            self._problem = str(error)
            self._buffer.give_up()
            self._on_fenced(error)
        except (StoreIncompatible, PieceExists) as error:
            self._problem = str(error)
            log.error("nothing is shipped%s: %s", self._held, error)
            self._buffer.give_up()
        except Exception as error:
            self._problem = f"shipping failed ({error})"
            log.exception("nothing is shipped any more%s, until the next start", self._held)
            self._buffer.give_up()
        finally:
            self._target.close()

    def _enter(self) -> None:
        """Return once the place is this store's and, if the start could not claim it, this broker's."""

        def claim_and_announce() -> None:
            chains_of_store(self._target, self._store.uuid.hex()[:8])
            if self._owner is not None:
                self._owner.claim()
                self._owner.announce(self._writer.chain)

        self._until_done(claim_and_announce)

    def _go_on(self) -> None:
        """Ship the next pieces: those of a base, if one is due, else the records that wait."""
        unbased = self._buffer.dropping or not self._bases
        if (unbased or self._base_due()) and time.monotonic() >= self._base_not_before:
            self._make_base()
        elif unbased:
            self._pause(RETRY_SECONDS)
        else:
            self._buffer.wait(0.0 if self._remove_some() else FENCE_SECONDS)
            if self._buffer.waiting_bytes:
                urgent_from = self._shipped_at + self._rules.confirm_seconds
                self._buffer.wait(self._rules.piece_seconds, self._rules.piece_bytes, urgent_from)
                self._ship_records()
            elif self._owner is not None:
                with suppress(OSError):  # while nothing is to be shipped, a target that does not answer is no matter
                    self._owner.check()

    def _base_due(self) -> bool:
        if not self._log_bytes:
            return False
        size_due = self._log_bytes > max(self._rules.base_records_bytes, self._base_bytes)
        return size_due or time.monotonic() - self._base_at > self._rules.base_seconds

    def _make_base(self) -> None:
        """Ship a base, with records between its parts. One that fails is tried later."""
        try:
            self._ship_base()
        except (PieceExists, Fenced):
            raise
        except (StoreError, OSError) as error:
            if not self._buffer.closed:
                self._base_not_before = time.monotonic() + self._base_retry_seconds
                self._base_retry_seconds = min(self._base_retry_seconds * 2, RETRY_SECONDS_MAX)
                self._note(error)

    def _ship_base(self) -> None:
        """Raises StoreError and OSError if it cannot be made; StoreError too if records were dropped meanwhile."""
        self._buffer.restart()
        first, began = self._writer.number + 1, time.monotonic()
        self._catch_up()  # so that the copy has all records before this base
        base = self._base = BaseCopy(self._messages, self._definitions, self._scratch)
        sizes = {PieceKind.MESSAGES: 0, PieceKind.DEFINITIONS: 0}
        parts = base.parts()
        try:
            self._refuse_dropped()  # `abort_base` may have come before there was a copy
            for kind, part in parts:
                self._refuse_dropped()
                self._write(kind, first, part)
                sizes[kind] += len(part)
                self._ship_due_records()
        finally:
            parts.close()
            self._base = None
        self._catch_up()  # so that a batch which the copy has is among the records by now
        self._ship_up_to(self._buffer.position)
        end = BaseEnd(self._position + 1, sizes[PieceKind.MESSAGES], sizes[PieceKind.DEFINITIONS])
        self._until_done(self._writer.mark_base)
        self._write(PieceKind.BASE, first, msgspec.msgpack.encode(end))
        self._bases, self._log_bytes, self._base_bytes = self._bases + 1, 0, sum(sizes.values())
        self._base_at, self._base_retry_seconds, self._problem = began, RETRY_SECONDS, ""
        self._buffer.based(self._position)  # last: who gets a confirm now may ask for the state
        log.info("shipped a base of %d bytes to %s", self._base_bytes, self._target)
        self._removing = remove_expired(self._target, self._rules.retention)

    def _refuse_dropped(self) -> None:
        if self._buffer.dropping or self._buffer.closed:
            raise StoreError("the records since the base began do not fit into ship.buffer_bytes, or the broker stops")

    def _ship_due_records(self) -> None:
        """Ship records between two parts of a base, as often as without one."""
        seconds = self._rules.confirm_seconds if self._buffer.urgent else self._rules.piece_seconds
        due = time.monotonic() - self._shipped_at >= seconds
        if due or self._buffer.waiting_bytes >= self._rules.piece_bytes:
            self._ship_records()

    def _ship_up_to(self, position: int) -> None:
        """Ship all records up to a position. The base has those that were dropped before it began."""
        while self._buffer.holds(position):
            self._ship_records()
        self._refuse_dropped()
        self._position = max(self._position, position)

    def _ship_records(self) -> None:
        records, self._shipped_at = self._buffer.take(self._rules.piece_bytes), time.monotonic()
        if records:
            self._write(PieceKind.RECORDS, records[0].position, pack(records))
            self._position = records[-1].position
            self._buffer.shipped(self._position)
            self._log_bytes += sum(len(record.data) for record in records)

    def _write(self, kind: PieceKind, first: int, payload: bytes) -> None:
        """Write a piece, and try again until it is at the target. Raises _Ended at the end of the broker."""

        def put_and_check() -> None:
            self._writer.put()
            if self._owner is not None:
                self._owner.check()  # behind the piece: a promotion reads all pieces that were put before it

        size = self._writer.seal(kind, first, payload)
        self._until_done(put_and_check)
        self._bytes += size
        if self._problem and self._bases:
            log.info("%s answers again", self._target)
            self._problem = ""
        if self._rules.bytes_per_second:
            self._pause(size / self._rules.bytes_per_second)

    def _until_done(self, call: Callable[[], None]) -> None:
        """Call the target, again and again until it does it. Raises _Ended at the end of the broker."""
        seconds = RETRY_SECONDS
        while True:
            try:
                call()
                return
            except OSError as error:
                self._note(error)
                self._pause(seconds)
                seconds = min(seconds * 2, RETRY_SECONDS_MAX)

    @property
    def _held(self) -> str:
        """The rest of a line in the log about a target that takes nothing."""
        return ", and confirms wait" if self._buffer.confirming else ""

    def _note(self, error: Exception) -> None:
        """Log a failure, once for each text of it."""
        problem = f"{self._target}: {error}"
        if problem != self._problem:
            log.warning("cannot ship to %s; it is tried again%s", problem, self._held)
        self._problem = problem

    def _pause(self, seconds: float) -> None:
        if self._ending.wait(seconds):
            raise _Ended

    def _remove_some(self) -> bool:
        """Remove some expired pieces. True while there may be more."""
        try:
            return sum(1 for _removed in islice(self._removing, REMOVED_AT_ONCE)) == REMOVED_AT_ONCE
        except (OSError, StoreError) as error:
            log.warning("expired pieces cannot be removed from %s, until the next base: %s", self._target, error)
            return False
