"""Histories with some events changed at random: nobody has thought of what becomes of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from itertools import pairwise

from leveret_spark.events.event_columns import Event
from tests.pipeline.inputs.made_up_events import History

KINDS = ("ack", "reject", "requeue", "deliver", "expire", "drop", "route", "queued", "release")
CHANGES_MAX = 3
Events = list[Event]


def changed(histories: Iterable[History], seed: int) -> list[History]:
    """Change each history, which becomes a node's of its own."""
    dice, found = random.Random(seed), []
    for number, history in enumerate(histories):
        history.node = f"node-{number}"
        history.events = [event._replace(node=history.node) for event in history.events]
        for _ in range(dice.randint(1, CHANGES_MAX)):
            dice.choice(CHANGES)(history.events, dice.randrange(len(history.events)), dice)
        history.events = _numbered(history.events)
        found.append(history)
    return found


def _lose(events: Events, at: int, _: random.Random) -> None:
    """An event is not in the log, unless it is the only one."""
    if len(events) > 1:
        del events[at]


def _repeat(events: Events, at: int, dice: random.Random) -> None:
    """An event comes again, later in its boot."""
    last = max(number for number, event in enumerate(events) if event.boot == events[at].boot)
    events.insert(dice.randint(at, last) + 1, events[at])


def _swap(events: Events, at: int, _: random.Random) -> None:
    """Two events of a boot come in the other order."""
    if at + 1 < len(events) and events[at].boot == events[at + 1].boot:
        one, two = events[at], events[at + 1]
        events[at : at + 2] = two._replace(seq=one.seq), one._replace(seq=two.seq)


def _turn(events: Events, at: int, dice: random.Random) -> None:
    """Something else happens to a message."""
    if events[at].position is not None:
        kind = dice.choice(KINDS)
        events[at] = events[at]._replace(kind=kind, redelivered=dice.random() < 0.5 if kind == "deliver" else None)


def _move(events: Events, at: int, dice: random.Random) -> None:
    """It happens to another one."""
    event, by = events[at], dice.choice((-1, 1, 2, 5))
    if event.position is not None and event.msg_id is not None:
        events[at] = event._replace(position=event.position + by, msg_id=event.msg_id + by)


CHANGES: tuple[Callable[[Events, int, random.Random], None], ...] = (_lose, _repeat, _swap, _turn, _move)


def _numbered(events: Events) -> Events:
    """Number events that come again behind the one before them, and keep the holes in the numbers."""
    found = events[:1]
    for before, event in pairwise(events):
        behind = found[-1].seq + 1 if before.boot == event.boot else event.seq
        found.append(event._replace(seq=max(event.seq, behind)))
    return found
