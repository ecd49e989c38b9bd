"""The clients' knowledge of each message, and what may therefore become of it.

A *publication* is one publish, a *copy* its place in one queue, a *place* one queue from its declaration to its
deletion. Nothing is guessed: where the promises leave two outcomes open, a copy is in doubt (`sure` is False, or
`shaky` is True) until a delivery, a confirm or a count of messages decides it.

The oracle of the restart tests (`tests/durability/ledgers/oracle.py`) is not used here: it judges what queues hold
after a restart, once. The simulation knows every event and its time, and holds each delivery and each count against
them as they happen: expiry, delays, alarms, prefetch; after a restart it goes on with the same copies.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Protocol

from tests.simulation.world.topology_of_seed import DEAD_LETTERS, LATE_QUEUE, Recipe

if TYPE_CHECKING:
    from collections.abc import Iterable

Key = tuple[int, str]
"""The publication's number, and for a dead letter the name of the queue in which it died."""

_arrivals = count()

PATTERN = bytes(range(251))
"""Pattern of bodies, each from a place of its own."""

TOLERANCE = 3
"""Milliseconds by which two readings of the clock may differ by rounding."""

EXPIRY_AFTER_START = 2_600
"""Milliseconds after a start by which everything that has expired is gone."""


class Broken(AssertionError):
    """A promise has not been kept."""


class Holder(Protocol):
    """A channel that messages are out with."""

    @property
    def late(self) -> bool:
        """True if not all that it was sent has been seen yet: its client does not read, or is gone."""


class Taker(Holder, Protocol):
    """A consumer, as far as its queue's promises go."""

    @property
    def channel(self) -> Holder:
        """Holder of its deliveries."""

    priority: int

    @property
    def ended(self) -> bool:
        """The broker has closed its channel, whether its client has heard of it or not."""

    @property
    def hungry(self) -> bool:
        """It has credit for another message, and takes what is sent."""

    @property
    def hungry_enough(self) -> bool:
        """It could have been given what others were given in this event."""

    @property
    def holds(self) -> bool:
        """Something that it was given is out, as far as its client knows."""


class Publication:
    """One publish. `held` says that it was sent while publishers had to wait, and is not known to be handled."""

    __slots__ = (
        "alarm",
        "body",
        "copies",
        "delay",
        "expiration",
        "held",
        "number",
        "perhaps",
        "persistent",
        "rank",
        "reached",
        "sender",
        "taken_at",
        "target",
    )

    def __init__(self, number: int, size: int, sender: object, *, persistent: bool) -> None:
        self.number = number
        self.body = (b"%d:" % number) + (PATTERN * (size // len(PATTERN) + 2))[number % len(PATTERN) :][:size]
        self.sender = sender
        self.persistent = persistent
        self.rank = 0
        self.expiration = 0
        self.delay = 0
        self.target = ("", "")
        self.reached: set[str] = set()
        """In a transaction: the names of the queues that it is for."""
        self.perhaps: set[str] = set()
        """The names of those among and beside them that it is for if it was handled at another moment."""
        self.held = False
        self.alarm = self.taken_at = 0
        self.copies: list[Copy] = []


class Group:
    """Copies that reach the disk as one: those that came and those that left. `batch` is the one it is in."""

    __slots__ = ("batch", "came", "left", "open", "over", "owed", "vague")

    def __init__(self, batch: int) -> None:
        self.batch = batch
        self.came: list[Copy] = []
        self.left: list[Copy] = []
        self.open = False
        """A crash has left in doubt whether it happened."""
        self.owed: list[Copy] = []
        """Copies that left and had been on disk for certain: they must be there, or those that came. The rest need
        not."""
        self.vague = False
        """It is in `batch` at the latest: what came had to wait for the disk, and was seen later."""
        self.over = False
        """Copies that came had been settled before the crash, and a full disk may have that already: neither side is
        owed."""

    def happened(self, *, happened: bool) -> None:
        """One of its copies has been seen, here or there: that decides about the others."""
        if not self.open:
            return
        self.open = False
        for copy in self.came:
            if happened and not copy.fate:
                copy.sure = True
            elif not happened and not copy.sure:
                copy.end("never written", 0)
                del copy.place.gone[copy.key]
        for copy in self.left:
            if happened and not copy.fate:
                copy.end("left with what came in the same write", 0)
            elif not happened and not copy.fate:
                copy.sure = copy.was_sure


class Copy:
    """A message in a queue. `fate` says why it is gone for certain, empty while it is not.

    `came`, `left`, `released` and `marked` are the batches with which its arrival, its end, its leaving a delay and its
    first delivery go to disk, at the latest; 0 is on disk already, and a `marked` of -1 means that nobody knows. `flag`
    is what `redelivered` has to be: None where both are right.
    """

    __slots__ = (
        "arrival",
        "astray",
        "came",
        "confirmed",
        "expires_at",
        "expires_by",
        "fate",
        "flag",
        "group",
        "groups_left",
        "key",
        "left",
        "marked",
        "not_before",
        "origin",
        "out",
        "place",
        "publication",
        "ready_by",
        "released",
        "shaky",
        "since",
        "sure",
        "times_out",
        "unplaced",
        "waits",
        "was_sure",
    )

    def __init__(
        self, publication: Publication, place: Place, batch: int, event: int, origin: Copy | None = None
    ) -> None:
        self.publication = publication
        self.place = place
        self.arrival = next(_arrivals)
        self.key: Key = (publication.number, origin.place.recipe.name if origin else "")
        self.origin = origin
        self.came, self.left, self.marked = batch, 0, 0
        self.since = event
        self.sure = True
        self.was_sure = False
        """It had been on disk for certain before a crash left its end in doubt."""
        self.astray = False
        """Its publish had to wait, and its queue was in reach only before or after: it may have come, or not."""
        self.shaky = False
        self.unplaced = publication.held
        """Its publish had to wait, so nobody knows what came into its queue before it."""
        self.confirmed = False
        self.fate = ""
        self.flag: bool | None = False
        self.out: Holder | None = None
        self.times_out = 0
        self.expires_at = self.expires_by = 0
        self.waits = False
        """It is delayed, and has not been seen since: in its queue between `not_before` and `ready_by`."""
        self.not_before = self.ready_by = self.released = 0
        self.group: Group | None = None
        self.groups_left: list[Group] = []
        place.copies[self.key] = self

    @property
    def kept(self) -> bool:
        """It outlasts the process."""
        return self.place.recipe.durable and (self.publication.persistent or self.place.recipe.kind == "quorum")

    @property
    def is_dead_letter(self) -> bool:
        """It is a dead letter."""
        return bool(self.key[1])

    @property
    def line(self) -> Place:
        """The queue that it came back to, and where it waits in line to be dealt with: a dead letter's message's."""
        return self.place if self.origin is None else self.origin.place

    def may_have_gone(self, now: int) -> bool:
        """Its time may be over, or the queue may have dropped it."""
        return self.shaky or (0 < self.expires_at <= now + TOLERANCE)

    def certainly_ready(self, now: int) -> bool:
        """It must be there, waiting for a consumer."""
        if self.fate or self.out is not None or not self.sure or self.may_have_gone(now):
            return False
        return not self.waits or 0 < self.ready_by < now

    def possibly_ready(self, now: int) -> bool:
        """It may be there, waiting for a consumer."""
        return not self.fate and self.out is None and (not self.waits or self.not_before <= now + TOLERANCE)

    def end(self, fate: str, batch: int) -> None:
        """It is gone."""
        self.fate, self.left, self.out = fate, batch, None
        self.place.copies.pop(self.key, None)
        self.place.gone[self.key] = self

    def revive(self) -> None:
        """A crash may have undone its end."""
        del self.place.gone[self.key]
        self.fate, self.left, self.sure = "", 0, False
        self.place.copies[self.key] = self

    def come_back(self, event: int) -> None:
        """It comes back from a client that gives it back, or has lost it."""
        self.out = None
        self.flag = True
        self.since = event
        limit = self.place.recipe.delivery_limit
        if limit and self.times_out > limit:
            self.shaky = True


class Place:
    """A queue, by the number that its incarnation has in the broker."""

    def __init__(self, number: int, recipe: Recipe, now: int) -> None:
        self.number = number
        self.declared = recipe
        self.recipe = recipe
        """Its declaration, and the rules to which it is held: policies may say more."""
        self.forces: tuple[object, ...] = (None, None)
        self.was_limited = bool(recipe.limit)
        self.dead_letter_queues = {recipe.dead_letters_to}
        """Queues of its dead letters at any time; nowhere, if the empty name is among them."""
        self.copies: dict[Key, Copy] = {}
        self.gone: dict[Key, Copy] = {}
        self.takers: list[Taker] = []
        self.former: list[Taker] = []
        """Consumers that were cancelled, and may have messages out."""
        self.asked: list[Holder] = []
        """Those whose basic.get has not been answered."""
        self.there = True
        self.sealed = not recipe.durable
        """Its declaration is on disk: somebody has been told."""
        self.ending = False
        """Somebody has asked for its deletion, or it may have ended by itself."""
        self.ended = False
        """Somebody has been told of its deletion."""
        self.used = now
        self.had_takers = False
        self.said_empty = False

    @property
    def blurred(self) -> bool:
        """Somebody has been sent messages from here that have not been seen yet."""
        return any(holder.late for holder in (*self.takers, *self.asked))

    def bounds(self, now: int, started: int) -> tuple[int, int]:
        """Return the least and the largest possible number of ready messages. Those long expired are gone."""
        low = high = 0
        for copy in self.copies.values():
            if copy.possibly_ready(now):
                high += 1
                low += copy.certainly_ready(now)
        return low, high - len(self.overdue(now, started))

    def overdue(self, now: int, started: int) -> list[Copy]:
        """Those at the front whose time has been over for too long."""
        found: list[Copy] = []
        if (
            self.recipe.levels
            or self.recipe.kind == "quorum"
            or self.recipe.name == DEAD_LETTERS
            or now < started + EXPIRY_AFTER_START
        ):
            return found
        gone_by = now - TOLERANCE
        if not [copy for copy in self.copies.values() if 0 < copy.expires_by < gone_by]:
            return found
        for copy in sorted(self.copies.values(), key=lambda copy: _place_in_line(copy, gone_by)):
            if not copy.possibly_ready(now):
                continue
            if not 0 < copy.expires_by < gone_by:
                break
            found.append(copy)
        return found

    def check_served(self, taker: Taker) -> None:
        """A single active consumer is served alone, and not before what its predecessors had is back. Raises Broken."""
        if not self.recipe.single_active or self.blurred:
            return
        if self.takers and self.takers[0] is not taker:
            raise Broken(f"queue {self.recipe.name} serves a consumer that stands by")
        self.former = [former for former in self.former if former.holds]
        if any(former.channel is not taker.channel for former in self.former):
            raise Broken(f"queue {self.recipe.name} serves a consumer while messages are out with the one before")

    def make_room(self, back: Holder | None = None) -> None:
        """It may hold too many, and then drops some, nobody knows which; what was out with `back` is in it again."""
        limit = self.recipe.limit
        waiting = [copy for copy in self.copies.values() if copy.out in (None, back)]
        if limit and self.recipe.overflow == "" and len(waiting) > limit:
            for copy in waiting:
                copy.shaky = True


def passed_over(place: Place, taken: Iterable[Copy], now: int, event: int) -> tuple[Copy, Copy] | None:
    """A message that was taken, and one that was ready before it and should have been taken instead."""
    if place.recipe.name == LATE_QUEUE:
        return None
    waiting = [copy for copy in place.copies.values() if copy.certainly_ready(now) and copy.since < event]
    for one in taken:
        for other in waiting:
            if _before(place, other, one):
                return one, other
    return None


def _before(place: Place, other: Copy, one: Copy) -> bool:
    if other.publication.rank > one.publication.rank:
        return True
    if other.is_dead_letter or one.is_dead_letter or other.publication.rank != one.publication.rank:
        return False
    if place.recipe.kind == "quorum" and (other.times_out or one.times_out > 1):
        return False
    return other.publication.sender is one.publication.sender and other.publication.number < one.publication.number


def _place_in_line(copy: Copy, gone_by: int) -> tuple[int, int]:
    """Return the worst place of one that is to expire: a message whose time is not over may be before them all."""
    over = 0 < copy.expires_by < gone_by
    return (1 if over else -1) if copy.unplaced else 0, copy.arrival
