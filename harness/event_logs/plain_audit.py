"""The audit of pipeline/audit/verdicts.py in plain Python: one pass over the events, a dictionary for each queue.

It is here to be compared with. `python -m harness.event_logs.plain_audit DIRECTORY` prints how many copies have which
verdict, and how many have violations. tests/unit/bench/test_plain_audit.py holds it against the same stories as the
audit.
"""

from __future__ import annotations

import json
import sys
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from leveret_spark.events.event_columns import Event, read_segment
from leveret_spark.events.sealed_segments import SegmentDirectory
from leveret_spark.events.segment_format import OFFSETS_END

SEQ_BITS = 40
ENDS = frozenset({"ack", "reject", "expire", "drop", "release"})
OF_COPIES = frozenset({*ENDS, "route", "deliver", "requeue", "queued"})
ORDERED = ("classic", "quorum")
NEVER = 1 << 62


class Record(NamedTuple):
    """A moment at which all that was there had been recorded; `snapshot` is that of the boot's start."""

    moment: int
    boot: int
    start: bool
    snapshot: int


class Copy:
    """What is known of a message in a queue."""

    __slots__ = (
        "boots_delivered",
        "delivered",
        "delivered_as_new",
        "end",
        "ended",
        "ends",
        "kept",
        "last",
        "last_kind",
        "moved",
        "number",
        "queued",
        "routes",
        "unordered",
    )

    def __init__(self) -> None:
        self.number: int | None = None
        self.routes: tuple[int, ...] = ()
        self.ends: tuple[int, ...] = ()
        self.kept: bool | None = None
        self.last = self.delivered = self.queued = 0
        self.last_kind = ""
        self.delivered_as_new = self.boots_delivered = 0
        self.unordered = self.moved = False
        self.end: int | None = None
        """The moment of the end that is certain."""
        self.ended = 0

    def tell(self, kind: str, moment: int, event: Event) -> None:
        """Something has happened to it, later than all before."""
        if kind == "route":
            if not self.routes:
                self.number = event.msg_id
            self.routes += (moment,)
            self.kept = bool(self.kept) or bool(event.persistent)
        elif kind == "deliver":
            self.boots_delivered += self.delivered >> SEQ_BITS != event.boot
            self.delivered_as_new += not event.redelivered
            self.delivered = moment
        elif kind == "queued":
            self.queued = moment
        elif kind in ENDS:
            self.ends += (moment,)
            self.ended = moment
        self.last, self.last_kind = moment, kind


class Queue:
    """The copies in a queue, what swept it, and whether its order counts."""

    def __init__(self) -> None:
        self.copies: defaultdict[int, Copy] = defaultdict(Copy)
        self.sweeps: list[tuple[int, int, frozenset[int]]] = []
        """Moment, the position below which everything is gone, and what is spared."""
        self.ordered = False
        self._boot = self._highest = 0

    def deliver(self, copy: Copy, event: Event) -> None:
        """Note what comes behind a later one as new; order begins anew with each boot."""
        position = event.position or 0
        if event.redelivered:
            return
        if event.boot != self._boot:
            self._boot, self._highest = event.boot, 0
        copy.unordered |= position < self._highest
        self._highest = max(self._highest, position)


class Life:
    """A boot."""

    def __init__(self) -> None:
        self.last = 0
        self.stopped = self.complete = False
        self.snapshot = self.stop = 0
        self.horizon = NEVER


class Node:
    """One broker's log, told event by event in its order; what has been told already is passed over."""

    def __init__(self) -> None:
        self.queues: defaultdict[tuple[str, str], Queue] = defaultdict(Queue)
        self.confirmed: set[int] = set()
        self.own: set[int] = set()
        """Numbers of what the broker itself has published."""
        self.lives: defaultdict[int, Life] = defaultdict(Life)
        self.gaps: list[int] = []
        """Moments behind which events are missing that may have reached the disk."""
        self._known: dict[int, int] = {}
        self._moment = 0

    def tell(self, event: Event) -> None:
        """The next event."""
        kind, moment = event.kind, event.boot << SEQ_BITS | event.seq
        if moment <= self._moment:
            return
        self._moment = moment
        life = self.lives[event.boot]
        if event.seq > life.last + 1:
            self.gaps.append(event.boot << SEQ_BITS | life.last)
        life.last = event.seq
        if kind in OF_COPIES:
            self._tell_copy(kind, moment, event)
        elif kind == "confirm":
            self.confirmed.add(event.msg_id or 0)
        elif kind == "publish":
            if event.channel == 0:
                self.own.add(event.msg_id or 0)
        else:
            self._tell_rest(kind, moment, event, life)

    def _tell_copy(self, kind: str, moment: int, event: Event) -> None:
        position = event.position or 0
        if position < OFFSETS_END:
            return
        queue = self.queues[event.vhost or "", event.queue or ""]
        copy = queue.copies[position]
        copy.tell(kind, moment, event)
        if kind == "deliver":
            queue.deliver(copy, event)

    def _tell_rest(self, kind: str, moment: int, event: Event, life: Life) -> None:
        detail = json.loads(event.detail or "{}")
        if kind == "boot":
            before = detail["previous_boot"]
            self._known[before] = max(self._known.get(before, 0), detail["previous_known"])
        elif kind == "stop":
            life.stopped, life.complete, life.stop = True, detail["complete"], moment
        elif kind == "snapshot":
            life.snapshot = moment
        elif kind == "declare":
            queue = self.queues[event.vhost or "", event.queue or ""]
            queue.ordered |= detail["max_priority"] == 0 and detail["type"] in ORDERED
        elif kind in ("purge", "delete"):
            queue = self.queues[event.vhost or "", event.queue or ""]
            queue.sweeps.append((moment, detail["below"], frozenset(detail["kept"])))

    def judge(self) -> Iterator[tuple[str, bool]]:
        """The verdict on each copy, and whether there are violations. All has been told."""
        self._close_lives()
        records = sorted(self._records())
        self.gaps.sort()
        for queue in self.queues.values():
            for copy in queue.copies.values():
                copy.end = self._certain(copy.ends)
            _move(queue, self)
            for position, copy in queue.copies.items():
                yield self._verdict(queue, position, copy, records)

    def _close_lives(self) -> None:
        boots = sorted(self.lives)
        for boot, later in pairwise(boots):
            life, known = self.lives[boot], self._known.get(boot, 0)
            untold = known == 0 and later > boot + 1
            if not life.stopped:
                life.horizon = boot << SEQ_BITS | known
                if untold or known > life.last:
                    self.gaps.append(boot << SEQ_BITS | life.last)
            if later > boot + 1:
                self.gaps.append(boot + 1 << SEQ_BITS)

    def _records(self) -> Iterator[Record]:
        for boot, life in self.lives.items():
            if life.snapshot:
                yield Record(life.snapshot, boot, True, life.snapshot)
            if life.complete:
                yield Record(life.stop, boot, False, life.snapshot)

    def _certain(self, moments: Iterable[int]) -> int | None:
        """The first moment that is known to be on disk."""
        return next((each for each in moments if each <= self.lives[each >> SEQ_BITS].horizon), None)

    def _verdict(self, queue: Queue, position: int, copy: Copy, records: list[Record]) -> tuple[str, bool]:
        absent = _absent(copy, records)
        if copy.end is None:
            copy.end = _swept(queue, position, copy, absent)
        violation = (
            (copy.end is not None and (copy.delivered > copy.end or copy.queued >> SEQ_BITS > copy.end >> SEQ_BITS))
            or copy.delivered_as_new > copy.boots_delivered
            or (copy.unordered and queue.ordered)
        )
        if copy.end is not None or (copy.ended and (absent is not None or copy.ended >= copy.last)):
            return "settled", violation
        if absent is None:
            return "queued", violation
        if copy.kept is False:
            return "not kept", violation
        gap = bisect_left(self.gaps, copy.last)
        if gap < len(self.gaps) and self.gaps[gap] < absent:
            return "unknown", violation
        return "lost" if self._promised(copy) else "not confirmed", violation

    def _promised(self, copy: Copy) -> bool:
        if not copy.routes:
            return True
        if copy.moved or copy.number in self.own:
            return self._certain(copy.routes) is not None
        return copy.number in self.confirmed


def _move(queue: Queue, node: Node) -> None:
    """Copies that went on to another place end by that; their successors have the first one's number."""
    moves = {
        position: copy.number
        for position, copy in queue.copies.items()
        if copy.routes and copy.number is not None and copy.number != position and copy.number in queue.copies
    }
    for position, before in moves.items():
        copy, left = queue.copies[position], queue.copies[before]
        copy.moved = True
        left.ended = max(left.ended, copy.routes[0])
        certain = node._certain(copy.routes)
        if not left.ends or node._certain(left.ends) is None:
            left.end = min((each for each in (left.end, certain) if each is not None), default=None)
    for position in moves:
        first = position
        while first in moves:
            first = moves[first]
        queue.copies[position].number = first


def _swept(queue: Queue, position: int, copy: Copy, absent: int | None) -> int | None:
    """The moment of the first sweep that took a copy which had not been missing before."""
    return next(
        (
            moment
            for moment, below, spared in queue.sweeps
            if position < below
            and copy.last < moment
            and position not in spared
            and (absent is None or moment < absent)
        ),
        None,
    )


def _absent(copy: Copy, records: list[Record]) -> int | None:
    """The first full record in which a copy is missing, behind the last that was heard of it."""
    boot = copy.last >> SEQ_BITS
    for record in records[bisect_left(records, (copy.last,)) :]:
        told = copy.last_kind != "queued" or copy.last <= record.snapshot
        if record.boot > boot or (record.boot == boot and not record.start and told):
            return record.moment
    return None


def audit(events: Iterable[Event]) -> tuple[Counter[str], int]:
    """How many copies have which verdict, and how many have violations. Events of a node come in their order."""
    nodes: defaultdict[str, Node] = defaultdict(Node)
    for event in events:
        nodes[event.node].tell(event)
    verdicts: Counter[str] = Counter()
    violations = 0
    for node in nodes.values():
        for verdict, violation in node.judge():
            verdicts[verdict] += 1
            violations += violation
    return verdicts, violations


def logged(directory: Path) -> Iterator[Event]:
    """The events in a directory of segments."""
    source = SegmentDirectory(directory)
    for name in source.names():
        yield from read_segment(name, source.read(name))


if __name__ == "__main__":
    found, wrong = audit(logged(Path(sys.argv[1])))
    print(json.dumps({"verdicts": found, "violations": wrong}))
