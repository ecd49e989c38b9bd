"""Coverage of an event log: its boots, its gaps, and its full records of what was queued.

A gap is a range of missing events. Behind the last event of a killed boot some may always be missing; but each commit
of messages records the last event before it, and the next boot repeats that number. If the log goes that far, none of
the missing events had reached the disk, so no message was lost by them, and the gap is not doubtful. All other gaps are
doubtful, and the audit reports no loss across them. A boot without a log may have recorded its own number over that of
the boot before, whose end is then doubtful, unless the next boot says that boots without a log have left nothing on
disk, such as a killed start.

The next boot also says how far the log of a boot went. What is missing of that was there and is gone, even behind an
orderly stop.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from pipeline.audit.reduction import NEVER, SEQ_BITS, Stretch, Told

END_OF_BOOT, NOT_WRITTEN, DAMAGED, NO_LOG, REMOVED, NO_BEGIN, MISPLACED = (
    "end of a boot",
    "events not written",
    "damaged segment",
    "boots without a log",
    "events removed",
    "boot without its first event",
    "event out of place",
)
"""Kinds of gaps."""


class Boot(NamedTuple):
    """A boot in a log. `stopped`: moment of its orderly stop; `complete`: a full record of the queues precedes it.

    `snapshot`: moment by which all messages of its start are recorded. Events up to the moment `horizon` are on disk.
    `next` is the next boot in the log. Times are microseconds since the epoch.
    """

    node: str
    boot: int
    first: int
    last: int
    events: int
    first_us: int
    last_us: int
    stopped: int | None
    complete: bool | None
    snapshot: int | None
    horizon: int
    next: int | None

    @property
    def open_end(self) -> bool:
        """It did not end in order, and another boot has followed."""
        return self.stopped is None and self.next is not None


class Gap(NamedTuple):
    """Missing events: behind event `after`, and before event `before` if one is known.

    `lost`: their number if known, the least number behind a boot's end. `doubtful`: changes among them may have reached
    the disk. `moment` is that of the last event before the gap, `at_us` its time if known. `file` is damaged.
    """

    node: str
    kind: str
    boot: int
    after: int
    before: int | None
    lost: int | None
    doubtful: bool
    moment: int
    at_us: int | None = None
    file: str | None = None


class Damage(NamedTuple):
    """A segment that could not be read whole, with the events that its name says."""

    node: str
    file: str
    boot: int
    first: int
    last: int


class Coverage(NamedTuple):
    """Boots and gaps of a node's log."""

    boots: list[Boot]
    gaps: list[Gap]


def coverage(node: str, stretches: Iterable[Stretch], told: Iterable[Told], damaged: Iterable[Damage]) -> Coverage:
    """Find the boots and gaps of one node."""
    of_boots = defaultdict[int, list[Stretch]](list)
    for each in sorted(stretches):
        of_boots[each.boot].append(each)
    told = list(told)
    boots, records = list(_boots(node, of_boots, told)), _records(told)
    idle = {boot for boot, record in records.items() if record.idle}
    gaps = [
        *_holes(node, of_boots, list(damaged)),
        *(_tail(boot, records.get(boot.boot), idle) for boot in boots if boot.open_end),
        *_removed(node, boots, records, list(damaged)),
        *_without_begin(node, of_boots, told),
        *_misplaced(node, of_boots, told),
        *_without_log(boots, idle),
    ]
    return Coverage(boots, sorted(gaps, key=lambda gap: (gap.moment, gap.kind)))


class Record(NamedTuple):
    """A boot in the next one's record: the last event in its log, and the last one that is known to have happened.

    `idle`: boots since have left nothing on disk.
    """

    logged: int
    known: int
    idle: bool


def moment(boot: int, seq: int) -> int:
    """Return the moment of an event: its place among all events of its node."""
    return boot << SEQ_BITS | seq


def _records(told: Iterable[Told]) -> dict[int, Record]:
    """Return the records of each boot by later ones; of several, the most."""
    found = dict[int, Record]()
    for each in told:
        if each.kind == "boot":
            said = each.detail
            record = Record(said["previous_last"], said["previous_known"], bool(said.get("idle_since")))
            before = found.get(said["previous_boot"], record)
            found[said["previous_boot"]] = Record(
                max(before.logged, record.logged), max(before.known, record.known), before.idle or record.idle
            )
    return found


def _boots(node: str, of_boots: dict[int, list[Stretch]], told: list[Told]) -> Iterator[Boot]:
    known = {boot: record.known for boot, record in _records(told).items()}
    stops = {each.moment >> SEQ_BITS: each for each in told if each.kind == "stop"}
    snapshots = {each.moment >> SEQ_BITS: each.moment for each in told if each.kind == "snapshot"}
    numbers = sorted(of_boots)
    for number, following in zip_longest(numbers, numbers[1:]):
        mine, stop = of_boots[number], stops.get(number)
        if stop is not None and stop.moment != moment(number, max(each.last for each in mine)):
            stop = None  # a stop is a boot's last event; the record before another one may lack anything
        open_end = stop is None and following is not None
        yield Boot(
            node,
            number,
            mine[0].first,
            max(each.last for each in mine),
            sum(each.last - each.first + 1 for each in mine),
            min(each.first_us for each in mine),
            max(each.last_us for each in mine),
            None if stop is None else stop.moment,
            None if stop is None else stop.detail["complete"],
            snapshots.get(number),
            moment(number, known.get(number, 0)) if open_end else NEVER,
            following,
        )


def _holes(node: str, of_boots: dict[int, list[Stretch]], damaged: list[Damage]) -> Iterator[Gap]:
    """Yield the missing numbers within a boot, from its begin on, and those of a damaged segment at its end."""
    for boot in sorted({*of_boots, *(each.boot for each in damaged)}):
        torn = [each for each in damaged if each.boot == boot]
        end = max((each.last for each in torn), default=0) + 1
        ranges = [(each.first, each.last, each.last_us) for each in of_boots.get(boot, [])]
        after, at = 0, None
        for first, last, last_us in [*ranges, (end, 0, None)]:
            if first > after + 1:
                file = next((each.file for each in torn if each.first < first and each.last > after), None)
                kind = DAMAGED if file else NOT_WRITTEN
                yield Gap(node, kind, boot, after, first, first - after - 1, True, moment(boot, after), at, file)
            after, at = max(after, last), last_us


def _without_log(boots: Iterable[Boot], idle: set[int]) -> Iterator[Gap]:
    """Yield gaps for boots without a log; behind a boot in `idle` they have left nothing on disk."""
    for boot in boots:
        if boot.next is not None and boot.next > boot.boot + 1:
            doubtful, at = boot.boot not in idle, moment(boot.boot + 1, 0)
            yield Gap(boot.node, NO_LOG, boot.boot + 1, 0, None, None, doubtful, at, boot.last_us)


def _tail(boot: Boot, record: Record | None, idle: set[int]) -> Gap:
    """Return the gap behind a boot that did not end in order. Nothing is known of it if no later boot tells of it."""
    known = 0 if record is None else record.known
    untold = record is None or (
        known == 0 and boot.next is not None and boot.next > boot.boot + 1 and boot.boot not in idle
    )
    lost = None if untold else max(known - boot.last, 0)
    doubtful = untold or known > boot.last
    at = moment(boot.boot, boot.last)
    return Gap(boot.node, END_OF_BOOT, boot.boot, boot.last, None, lost, doubtful, at, boot.last_us)


def _removed(node: str, boots: Sequence[Boot], records: dict[int, Record], damaged: Sequence[Damage]) -> Iterator[Gap]:
    """Yield the ends of logs that are gone: a later boot had found more than there is.

    Boots before the first one in the log are not missed: the oldest segments are removed. A damaged segment is a gap by
    itself.
    """
    first = min((boot.boot for boot in boots), default=0)
    ends = {boot.boot: (boot.last, boot.last_us) for boot in boots}
    torn = {each.boot: each.last for each in damaged}
    for number, record in sorted(records.items()):
        last, last_us = ends.get(number, (0, None))
        if first <= number and record.logged > max(last, torn.get(number, 0)):
            lost = record.logged - last
            yield Gap(node, REMOVED, number, last, None, lost, True, moment(number, last), last_us)


def _without_begin(node: str, of_boots: dict[int, list[Stretch]], told: Iterable[Told]) -> Iterator[Gap]:
    """Yield boots whose first event is not `boot`: it is another one's, or the log is not a broker's."""
    begun = {each.moment for each in told if each.kind == "boot"}
    for number, stretches in of_boots.items():
        if stretches[0].first == 1 and moment(number, 1) not in begun:
            yield Gap(node, NO_BEGIN, number, 0, 1, None, True, moment(number, 0), stretches[0].first_us)


def _misplaced(node: str, of_boots: dict[int, list[Stretch]], told: Iterable[Told]) -> Iterator[Gap]:
    """Yield events of boots that stand where none can: nothing is missing there, but what they say is not believed."""
    seen = set[tuple[int, str]]()
    for each in sorted(told, reverse=True):
        if each.kind in ("boot", "stop", "snapshot"):
            boot, seq = each.moment >> SEQ_BITS, each.moment & (1 << SEQ_BITS) - 1
            last = max(stretch.last for stretch in of_boots[boot])
            fits = {"boot": seq == 1, "stop": seq == last, "snapshot": (boot, "snapshot") not in seen}
            seen.add((boot, each.kind))
            if not fits[each.kind]:
                yield Gap(node, MISPLACED, boot, seq - 1, seq, 0, False, each.moment)
