"""One client's knowledge of its messages, and its demands on the queues after the broker was killed.

A client does everything over one channel, so all of it reaches the broker in one order. Its events are counted; a
confirm of a message in a queue that nobody consumes (a proof) says that every event before that publish is on disk.
A message has a copy for each queue it was routed to. A copy lives in a chain: its home, and the queue that it goes to
as a dead letter, by the client's word or by itself (expired, due, delivered too often). At any time it is in one of
them, or gone. The ledger knows for each copy where it may be, and whether it must be in one of these places.

A kill makes events that are not proven uncertain. Looking at a queue, or a delivery after the restart, makes what is
seen certain again: it came back from the disk.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tests.durability.ledgers.oracle import Debt, Found, Kind, Order, Owed, Place, Unit, Verdict, verdicts

BODY_BYTES_MAX = 2000
PREFETCH = 40
NEVER = 1 << 60
SOMETIME = NEVER - 1
"""Moment of things that happen at the disk's pace: later than anything that a confirm proves."""


@dataclass(frozen=True)
class Chain:
    """A copy's first place, the place of its dead letter, and the treatment by its home."""

    home: str
    dead_letters: str = ""
    by_itself: bool = False
    """It may go on to `dead_letters` without being told to."""
    keeps_all: bool = False
    """Transient messages last, too."""
    priorities: int = 0
    returns_last: bool = False
    """Messages given back go to the end."""
    looked_at: bool = True
    """Messages can be seen in the home; not so where they are delayed."""


@dataclass
class Copy:
    """One message in one chain. Moments are counts of the client's events; NEVER for what has not happened."""

    number: int
    chain: Chain
    place: int
    """The how-manieth of its home it is."""
    persistent: bool
    priority: int
    published_at: int
    certain: bool = False
    """It was confirmed, or it was seen after a restart: it is there unless it was acknowledged since."""
    acked_at: int = NEVER
    rejected_at: int = NEVER
    moved: bool | None = False
    """Is it in `dead_letters`? None: perhaps."""
    handed_at: dict[str, int] = field(default_factory=dict)
    """First delivery of this life, by queue."""
    wanders: bool = False
    """It may have gone to the end."""
    with_many: bool = False
    """It was settled in this life with many others by one frame, and counts as unacknowledged until its turn comes."""
    marked: set[str] = field(default_factory=set)
    """Queues from which its delivery is on disk."""

    def places(self) -> set[str]:
        """Places of the copy that are possible now."""
        home, dead_letters = self.chain.home, self.chain.dead_letters
        if self.moved:
            return {dead_letters}
        onward = self.moved is None or self.rejected_at != NEVER or self.chain.by_itself
        return {home, dead_letters} if onward and dead_letters else {home}

    @property
    def lasts(self) -> bool:
        """A restart leaves it."""
        return self.persistent or self.chain.keeps_all


@dataclass
class Transaction:
    """Publishes and acknowledgements that are done together or not at all."""

    added: list[Copy] = field(default_factory=list)
    removed: list[Copy] = field(default_factory=list)


@dataclass
class Tally:
    """Counts of a ledger."""

    published: int = 0
    confirmed: int = 0
    delivered: int = 0
    acked: int = 0
    rejected: int = 0
    checked: int = 0


class ClientLedger:
    """Everything a client knows of its queues. Messages are numbered in the order of their publishes.

    Methods that take in what the broker did raise AssertionError when it may not have done that.
    """

    def __init__(self, name: str, proofs: str, chains: Iterable[Chain], body_bytes_max: int = BODY_BYTES_MAX) -> None:
        self.name = name
        self._body_bytes_max = body_bytes_max
        self.proofs = Chain(proofs)
        self.chains = {chain.home: chain for chain in (self.proofs, *chains)}
        self.tally = Tally()
        self.transaction: Transaction | None = None
        self.in_doubt: Transaction | None = None
        self._chain_of = {queue: chain for chain in self.chains.values() for queue in (chain.home, chain.dead_letters)}
        self._copies: dict[tuple[int, str], Copy] = {}
        self._unconfirmed: dict[int, list[Copy]] = {}
        self._counts = dict.fromkeys(self.chains, 0)
        self._reach = dict.fromkeys(self.chains, -1)
        self._first_come: dict[str, int] = {}
        self._number = 0
        self._moment = 0
        self._proven = -1

    @property
    def queues(self) -> list[str]:
        """Every queue that can be looked at, homes before the queues that dead letters go to."""
        homes = [chain.home for chain in self.chains.values() if chain.looked_at]
        return homes + sorted({chain.dead_letters for chain in self.chains.values() if chain.dead_letters})

    def body(self, number: int) -> bytes:
        """The body of a message: it says which one it is."""
        size = random.Random(f"{self.name} {number}").randint(0, self._body_bytes_max)
        return b"%s %d %s" % (self.name.encode(), number, b"%d" % (number % 10) * size)

    def number_of(self, body: bytes) -> int:
        """Return the number of the message with this body."""
        number = int(body.split(b" ")[1])
        assert body == self.body(number), f"the body of {number} is not what was published"
        return number

    # --- what the client does ---

    def publish(self, homes: Iterable[str], *, persistent: bool = True, priority: int = 0) -> int:
        """A message is about to be published to these queues; its number."""
        self._number += 1
        self._moment += 1
        self.tally.published += 1
        copies = [self._new_copy(self.chains[home], persistent, priority) for home in homes]
        if self.transaction is None:
            self._unconfirmed[self._number] = copies
        else:
            self.transaction.added += copies
        return self._number

    def _new_copy(self, chain: Chain, persistent: bool, priority: int) -> Copy:
        self._counts[chain.home] += 1
        priority = min(priority, chain.priorities)
        copy = Copy(self._number, chain, self._counts[chain.home], persistent, priority, self._moment)
        self._copies[self._number, chain.home] = copy
        return copy

    def acked(self, queue: str, number: int) -> None:
        """An acknowledgement is about to be sent."""
        self._moment += 1
        self.tally.acked += 1
        copy = self._copy_in(queue, number)
        copy.acked_at = self._moment
        if self.transaction is not None:
            self.transaction.removed.append(copy)

    def rejected(self, queue: str, number: int, *, with_many: bool = False) -> None:
        """A rejection is about to be sent: into the dead letters, or for good where there are none.

        `with_many` others by one frame it happens at the disk's pace, and no confirm proves it.
        """
        self._moment += 1
        self.tally.rejected += 1
        copy, moment = self._copy_in(queue, number), SOMETIME if with_many else self._moment
        copy.with_many = with_many
        if queue == copy.chain.home and copy.chain.dead_letters:
            copy.rejected_at = moment
        else:
            copy.acked_at = moment

    def requeued(self, queue: str, number: int, *, with_many: bool = False) -> None:
        """A message is about to be given back."""
        self._moment += 1
        copy = self._copy_in(queue, number)
        copy.with_many = with_many
        copy.wanders = copy.wanders or copy.chain.returns_last

    def purged(self, home: str) -> None:
        """A queue, and then the one its dead letters go to, are about to be purged; nobody has to settle any of it."""
        self._moment += 1
        for (_, place), copy in self._copies.items():
            if place == home:
                copy.acked_at = SOMETIME if copy.with_many else min(copy.acked_at, self._moment)

    def committed(self) -> None:
        """The transaction is done: what was in it is certain, and proves what was before it."""
        assert self.transaction is not None
        for copy in self.transaction.added:
            copy.certain = True
        self.tally.confirmed += len(self.transaction.added)
        self._moment += 1
        self._prove(self._moment)
        self.transaction = Transaction()

    # --- what the broker does ---

    def confirmed(self, number: int) -> None:
        """A confirm has come."""
        copies = self._unconfirmed.pop(number, None)
        assert copies is not None, f"{self.name}: {number} was confirmed and had not been published, or twice"
        self.tally.confirmed += 1
        for copy in copies:
            copy.certain = copy.lasts
            if copy.chain is self.proofs and copy.persistent:
                self._prove(copy.published_at)

    def delivered(self, queue: str, number: int, redelivered: bool) -> None:
        """A delivery has come. First ones come in the order of their publishes, of one priority."""
        self._moment += 1
        self.tally.delivered += 1
        copy = self._copy_in(queue, number)
        if queue == copy.chain.dead_letters and copy.rejected_at == SOMETIME == copy.acked_at:
            copy.acked_at = NEVER  # the queues were purged before its turn came to be a dead letter
        assert copy.acked_at == NEVER, f"{queue}: {number} was delivered after its acknowledgement"
        assert queue in copy.places(), f"{queue}: {number} was delivered and should not be there"
        if queue in copy.marked:
            assert redelivered, f"{queue}: {number} was delivered before the restart and does not say so"
        if copy.published_at < 0:  # before the restart, so the disk has it
            copy.certain = True
        if queue == copy.chain.home:
            self._reach[queue] = max(self._reach[queue], copy.place)
            self._check_order(copy, redelivered)
        copy.handed_at.setdefault(queue, self._moment)

    def _check_order(self, copy: Copy, redelivered: bool) -> None:
        """First deliveries of an unranked queue ascend, apart from those that go out again after a loss unnoticed."""
        home = copy.chain.home
        if redelivered or copy.chain.priorities or copy.published_at < 0:
            return
        last = self._first_come.get(home, -1)
        assert copy.number > last, f"{home}: {copy.number} came first after {last}"
        self._first_come[home] = copy.number

    def _copy_in(self, queue: str, number: int) -> Copy:
        copy = self._copies.get((number, self._chain_of[queue].home))
        assert copy is not None, f"{queue}: {number} is there, and was gone, or never to be kept"
        return copy

    def _prove(self, moment: int) -> None:
        """Every event before this one is on disk."""
        self._proven = max(self._proven, moment)

    # --- after a kill ---

    def crashed(self) -> None:
        """The broker was killed. Unproven events are uncertain from now on."""
        self.in_doubt, self.transaction = self.transaction, None
        self._copies = {key: copy for key, copy in self._copies.items() if copy.lasts and copy.acked_at >= self._proven}
        for copy in self._copies.values():
            self._settle_doubts(copy)
        self._unconfirmed.clear()
        self._first_come.clear()
        self._moment, self._proven = 0, -1

    def _settle_doubts(self, copy: Copy) -> None:
        handed = {queue for queue, moment in copy.handed_at.items() if moment < self._proven}
        copy.marked |= handed
        if copy.rejected_at < self._proven or copy.chain.dead_letters in handed:
            copy.moved = copy.certain = True
        elif copy.rejected_at != NEVER:
            copy.moved = None
        if copy.acked_at != NEVER:
            copy.certain = False
        copy.published_at, copy.acked_at, copy.rejected_at = -1, NEVER, NEVER
        copy.handed_at.clear()
        copy.with_many = False

    def missing(self, queue: str, found: Iterable[Found]) -> bool:
        """A look at a queue has not shown everything that must come there by itself."""
        there = {one.number for one in found}
        return any(
            copy.certain and copy.number not in there
            for copy in self._copies.values()
            if copy.chain.dead_letters == queue and not copy.chain.looked_at
        )

    def lost(self, held: Mapping[str, list[Found]]) -> list[int]:
        """The numbers of what must be in some queue, and is in none."""
        return [verdict.number for verdict in self._verdicts(held) if verdict.kind is Kind.LOST]

    def returned(self, held: Mapping[str, list[Found]]) -> list[Place]:
        """Return messages found in a queue that they had left, or must not be in after a restart."""
        return [(verdict.queue, verdict.number) for verdict in self._verdicts(held) if verdict.kind is Kind.NOT_OWED]

    def problems(self, held: Mapping[str, list[Found]]) -> list[str]:
        """Return problems of the queues' contents."""
        self.tally.checked += len(self._copies)
        return [f"{self.name}: {verdict.text}" for verdict in self._verdicts(held)]

    def _verdicts(self, held: Mapping[str, list[Found]]) -> list[Verdict]:
        doubt = self.in_doubt
        units = [Unit(*(list(map(_chain, part)) for part in (doubt.added, doubt.removed)))] if doubt else []
        return verdicts(Debt(list(map(self._owed, self._copies.values())), units, self._order, self._why_not), held)

    def _owed(self, copy: Copy) -> Owed:
        home = copy.chain.home
        flags = dict.fromkeys(copy.marked, True)
        if copy.place > self._reach[home] + PREFETCH * 2 and not copy.chain.priorities:
            flags.setdefault(home, False)
        return Owed(copy.number, frozenset(copy.places()), copy.certain, flags, f": {copy}")

    def _order(self, queue: str, number: int) -> Order | None:
        copy = self._copies.get((number, queue))
        return None if copy is None or copy.wanders else ("", (-copy.priority, copy.number))

    def _why_not(self, queue: str, number: int) -> str:
        copy = self._copies.get((number, self._chain_of[queue].home))
        return f"should be in {sorted(copy.places())}: {copy}" if copy else "was gone, or never to be kept"

    def seen(self, held: Mapping[str, list[Found]]) -> None:
        """Take the contents found as certain: each message is where it was found; one not found is gone, if it can
        be."""
        places = {
            (one.number, self._chain_of[queue].home): queue for queue, messages in held.items() for one in messages
        }
        self._copies = {
            key: copy
            for key, copy in self._copies.items()
            if key in places or (not copy.chain.looked_at and not copy.certain)
        }
        for key, queue in places.items():
            copy = self._copies[key]
            copy.certain, copy.moved = True, queue == copy.chain.dead_letters
            copy.marked.add(queue)  # the look was a delivery, too
            if queue == copy.chain.home:
                self._reach[queue] = max(self._reach[queue], copy.place)
        self.in_doubt = None


def _chain(copy: Copy) -> frozenset[Place]:
    """All places that a copy may ever be in."""
    return frozenset((queue, copy.number) for queue in (copy.chain.home, copy.chain.dead_letters))
