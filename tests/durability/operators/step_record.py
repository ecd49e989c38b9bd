"""A record of one process, a broker or a command: what it did to the disk, what was said, and when LMDB had what."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from leveret.testing.power.disk_record import Event, read_events
from leveret.testing.power.disk_states import Chance, Disk, Remains
from tests.durability.crash.explorer import SOCKETS
from tests.durability.crash.recording.recorded_sockets import Conversations
from tests.durability.ledgers.conversation import Request, Said

PROCESS_CRASH = "everything"
"""A crash of the process: all it wrote is in the page cache."""

COPYING = ("backup", "testing", "ship_to", "ship_off")
"""Requests to a broker that change nothing of the debt."""


class Cut(NamedTuple):
    """A crash in the midst of a process: after which part of its changes of the disk, and what it leaves of them."""

    part: float
    kind: str
    seed: int

    @classmethod
    def drawn(cls, dice: random.Random) -> Cut:
        """A kill as often as a crash of the machine."""
        kind = PROCESS_CRASH if dice.random() < 0.5 else dice.choice(Chance.KINDS)
        return cls(dice.random(), kind, dice.randrange(1 << 30))

    @property
    def of_machine(self) -> bool:
        """True if unsynced writes may be lost."""
        return self.kind != PROCESS_CRASH

    def __str__(self) -> str:
        who = f"the machine crashes ({self.kind})" if self.of_machine else "it is killed"
        return f"{who} after {self.part:.1%} of its writes"


class StepRecord:
    """The record of one process."""

    def __init__(self, log: Path) -> None:
        self._log = log

    @property
    def events(self) -> list[Event]:
        """Every event so far, in order."""
        return list(read_events(self._log)) if self._log.exists() else []

    def place(self, cut: Cut) -> int | None:
        """The number of the event that a cut comes after; None for a process that changed nothing."""
        changes = [number for number, event in enumerate(self.events) if event.kind not in SOCKETS]
        return changes[int(cut.part * len(changes))] if changes else None

    def remains(self, before: Disk, cut: Cut, place: int) -> Remains:
        """Return the remains of a crash. `before` is the disk as the process found it; it is used up."""
        for event in self.events[: place + 1]:
            before.follow(event)
        return before.crash(Chance(cut.kind, random.Random(cut.seed), before.uncertain))

    def said(self, place: int | None = None) -> list[tuple[int, Said]]:
        """Return requests and answers up to an event, with the event's number; not those to copy, which may be
        refused."""
        conversations, found = Conversations(), list[tuple[int, Said]]()
        for number, event in enumerate(self.events[: None if place is None else place + 1]):
            if event.kind in SOCKETS:
                found += ((number, said) for said in conversations.follow(event))
        copying = {
            said.connection for _, said in found if isinstance(said.what, Request) and said.what.command in COPYING
        }
        return [(number, said) for number, said in found if said.connection not in copying]

    def commits(self, first: int) -> list[int]:
        """The events, after the first ones, with which LMDB has committed: a write of its meta page, synced at once."""
        return _commits(self.events, first)


def _commits(events: Sequence[Event], first: int) -> list[int]:
    handles: set[int] = set()
    found = []
    for number, event in enumerate(events):
        if event.kind == "o" and event.path.endswith("/messages/data.mdb"):
            handles.add(event.handle)
        elif event.kind == "w" and event.flags & 1 and event.handle in handles and number >= first:
            found.append(number)
    return found
