"""Verdicts on copies: confirmed messages that were lost, delivered again after their end, or out of order.

A copy is a message in a queue, identified by the queue and its position there. A copy that was confirmed to its
publisher and survives restarts must end by an event that ends copies, or be in each later full record, which a broker
writes at its start and at an orderly stop. A gap in the log is never reported as a loss: if one lies between the last
event of a copy and the record from which it is absent, the verdict is *unknown*. Dead letters, and messages whose delay
is over, are not confirmed; they come with the end of the message before them, and must be there once that end is on
disk.

Changes that were not on disk when the broker was killed may come undone: an acknowledgement, a purge, a move to the end
of a quorum queue. Then the message comes again. So an end counts only if its number is within what the next boot says
was on disk (see `log_coverage`); the deletion of a queue is in another file, and may come undone alone (see `sweeps`).

Streams are not judged: no message is consumed from them for good. Queues with priorities are not judged for order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pipeline.audit import copy_rules
from pipeline.audit.bound_queues import Bindings
from pipeline.audit.copy_rules import Facts, Lives, facts
from pipeline.audit.delivery_order import NOBODY, Deliveries, Overtakers, overtaken
from pipeline.audit.log_coverage import Coverage
from pipeline.audit.log_timeline import NEARBY_EVENTS, LogTimeline, boot_of, where
from pipeline.audit.publish_verdicts import Counts, Messages
from pipeline.audit.queue_settings import QueueSettings
from pipeline.audit.reduction import CODES, NEVER, SEQ_BITS, Bound, Groups, Place, Route, Sorted, Told
from pipeline.audit.seen_moments import seen
from pipeline.audit.sweeps import Sweep, sweeps
from pipeline.audit.verdict_table import (
    HOW,
    LOST,
    MOVE,
    NOT_CONFIRMED,
    NOT_KEPT,
    QUEUED,
    SCHEMA,
    SETTLED,
    TIME,
    UNKNOWN,
    VERDICTS,
    VIOLATIONS,
)


class Node(NamedTuple):
    """A node's reduced events, or a share of them with all copies of some messages.

    `copies` refers to `places` and `messages` to `routes`, by index. `bound`, `told` and `coverage` are of the whole
    log; `overtakers` are copies of other shares. Messages up to the numbers in `forgotten`, by boot, may be missing if
    they are over.
    """

    name: str
    places: list[Place]
    copies: pa.Table
    routes: list[Route]
    messages: pa.Table
    bound: list[Bound]
    told: list[Told]
    coverage: Coverage
    overtakers: Overtakers = NOBODY
    forgotten: Mapping[int, int] = {}


class Ends(NamedTuple):
    """Columns of copies: number of the message, and the moment from which nothing more is expected of the copy, NEVER
    if something is or it is a finding. `of_rows` has the number of each row of the reduced copies, `of_deliveries` that
    of each delivery judged for its order; those at `overtaken` came too late. `again`: the places of copies that were
    forgotten, and of which something is heard.
    """

    number: Any
    over: Any
    of_rows: Any
    of_deliveries: Any
    overtaken: Any
    again: Any


class Judged(NamedTuple):
    """Verdicts on the copies of a node: rows of SCHEMA; for each doubtful gap, by its moment, the copies in doubt.

    `deliveries` are those that were judged for their order. The last rows, as many as `messages`, are of messages that
    lack a copy or break a rule themselves.
    """

    rows: pa.Table
    in_doubt: dict[int, int]
    counts: Counts
    deliveries: Deliveries
    ends: Ends
    messages: int


class Origin(NamedTuple):
    """Columns of copies: times of their message's publish and confirm, whether the broker published it, whether it had
    an expiration, whether it was persistent, its size, and a row of the table of messages that has its properties; -1:
    none.
    """

    publish_us: Any
    confirm_us: Any
    own: Any
    expires: Any
    persistent: Any
    size_bytes: Any
    described: Any


def judged(node: Node) -> Judged:
    """Judge each copy.

    `verdict` is one of
    - settled: it ended, by `how`;
    - queued: it was there the last time that everything was recorded, or has come since;
    - lost: it was confirmed, or stands for a confirmed message, and is gone without an end;
    - unknown: it is gone, and a gap in the log lies where its end may have been;
    - not confirmed, not kept: it is gone without an end, and was not confirmed or not persistent.

    `violations` lists further breaches of the guarantees. `first` and `last` are the moments of its first and last
    event, `absent` is the first full record from which it is missing.
    """
    found = _Copies(node)
    found.sweep()
    found.move()
    return found.judge()


class _Copies:
    """One row for each copy of a node, by place and position; attributes without a docstring are columns."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._timeline = LogTimeline(node.coverage)
        copies = node.copies
        keys = Groups(*(copies.column(name).to_numpy() for name in ("place", "position", "first")))
        # One row for each copy and reduced batch: below they are merged, over all batches and then by boot.
        rows = {name: copies.column(name).to_numpy()[keys.order] for name in copies.column_names}
        self._order = keys.order
        self._rows = rows
        self._groups = groups = Sorted(rows["place"], rows["position"])
        self._lives = Sorted(rows["place"], rows["position"], boot_of(rows["last"]))
        self._copy_of_life = groups.of_rows[self._lives.starts]
        """Index of the copy for each boot with events of it."""
        self.place, self.position = rows["place"][groups.starts], rows["position"][groups.starts]
        self.msg_id = groups.first(rows["msg_id"] >= 0, rows["msg_id"], -1)
        self.routed = groups.min(rows["routed"])
        self.routed_for_good = groups.min(self._timeline.certain(rows["routed"]))
        self.kept = groups.max(rows["kept"])
        self.first_deliver_us = groups.min(rows["first_deliver_us"])
        self.deliveries, self.acks = groups.sum(rows["deliveries"]), groups.sum(rows["acks"])
        # An end that had not reached the disk may have come undone: it is in `ended`, and not in `end`.
        certain = self._timeline.certain(rows["end"])
        self.end = groups.min(certain)
        self.how = groups.first(certain < NEVER, rows["end_kind"], MOVE)
        self.ended = groups.max(rows["ended"])
        self.settled = self.ended.copy()
        self.first = groups.min(rows["first"])
        self.first_kind = groups.first(rows["first"] < NEVER, rows["first_kind"], 0)
        self.last = groups.max(rows["last"])
        self.last_kind = groups.last(rows["last"] >= 0, rows["last_kind"], 0)
        self.last_delivered, self.queued = groups.max(rows["last_delivered"]), groups.max(rows["queued"])
        self.moved = self.left_alone = np.zeros(len(self.place), bool)
        self.before, self.over = np.full(len(self.place), -1), self.end
        self.absent = self._timeline.absent(self.last, self.last_kind == CODES["queued"])
        self.in_order = Deliveries(*(self.place[:0] for _ in Deliveries._fields))
        self._delivered = self._overtaken = np.zeros(0, np.int64)

    # Ends of many at once, and moves

    def sweep(self) -> None:
        """End the copies taken by a purge or by the deletion of their queue, unless they were absent before."""
        found = sweeps(self._node.told, self._node.coverage.boots)
        for number, place in enumerate(self._node.places):
            if place in found:
                rows = slice(*np.searchsorted(self.place, [number, number + 1]))
                self._sweep(rows, found[place])

    def _sweep(self, rows: slice, found: list[Sweep]) -> None:
        moments, below = (np.array(each) for each in zip(*((e.moment, e.below) for e in found), strict=True))
        position = self.position[rows]
        at = np.searchsorted(moments, self.first[rows])
        kept = {number: each.kept for number, each in enumerate(found) if each.kept}
        waiting = np.flatnonzero(at < len(found))
        while len(waiting):
            spared = position[waiting] >= below[at[waiting]]
            for number in np.unique(at[waiting]):
                if int(number) in kept:
                    mine = at[waiting] == number
                    spared[mine] |= np.isin(position[waiting[mine]], kept[int(number)])
            waiting = waiting[spared]
            at[waiting] += 1
            waiting = waiting[at[waiting] < len(found)]
        swept = np.append(moments, NEVER)[at]
        swept[swept > self.absent[rows]] = NEVER
        kinds = np.array([CODES[each.kind] for each in found] + [0])[at]
        undone = np.array([*(each.undone for each in found), False])[at]
        self._end(np.arange(rows.start, rows.stop), swept, kinds, undone)

    def _end(self, rows: Any, moments: Any, kinds: Any, undone: Any = False) -> None:
        """End copies at moments (NEVER: not), if these are known to be on disk and were not perhaps `undone`."""
        self.ended[rows] = np.maximum(self.ended[rows], np.where(moments < NEVER, moments, -1))
        certain = np.where(undone, NEVER, self._timeline.certain(moments))
        sooner = certain < self.end[rows]
        self.how[rows] = np.where(sooner, kinds, self.how[rows])
        self.end[rows] = np.minimum(self.end[rows], certain)

    def move(self) -> None:
        """End the copies that moved to the end of a quorum queue; their successors get the number of the first.

        A successor is `left_alone` if its predecessors have no later event: then the move has not come undone.
        """
        to = np.flatnonzero((self.msg_id != self.position) & (self.routed < NEVER))
        before = self._at(self.place[to], self.msg_id[to])
        to, before = to[before >= 0], before[before >= 0]
        self.before[to], self.over = before, self.end.copy()
        left = Groups(before)
        rows = before[left.order][left.starts]
        self._end(rows, left.min(self.routed_for_good[to][left.order]), np.full(len(rows), MOVE))
        self.ended[rows] = np.maximum(self.ended[rows], left.max(self.routed[to][left.order]))
        self.moved[to] = True
        first = np.arange(len(self.place))
        first[to] = before
        while (first[first] != first).any():
            first = first[first]
        self.msg_id = np.where(self.moved, self.position[first], self.msg_id)
        heard = self.last.copy()
        np.maximum.at(heard, first, self.last)
        self.left_alone = self.moved & (heard[first] <= self.last)

    def _at(self, place: Any, position: Any) -> Any:
        """Return the rows of copies; -1 if there is none."""
        found = np.empty(len(place), np.int64)
        for number in np.unique(place):
            begin, end = np.searchsorted(self.place, [number, number + 1])
            mine = place == number
            at = begin + np.searchsorted(self.position[begin:end], position[mine])
            there = (at < end) & (self.position[np.minimum(at, end - 1)] == position[mine])
            found[mine] = np.where(there, at, -1)
        return found

    # The judgement

    def judge(self) -> Judged:
        """Return the verdicts, violations and evidence."""
        origin = self._origin()
        confirm_us, own = origin.confirm_us, origin.own
        unpublished = self._unpublished()
        lives = Lives(self._rows, self._groups)
        known = facts(
            lives,
            msg_id=self.msg_id,
            published=origin.publish_us < NEVER,
            persistent=origin.persistent,
            own=own,
            expires=origin.expires,
            moved=self.moved,
        )
        # A move that came undone is no loss: the message is where it was before.
        confirmed = (confirm_us < NEVER) & (~self.moved | self.left_alone)
        promised = confirmed | ((own | self.moved) & (self.routed_for_good < NEVER))
        promised = np.where(self.routed < NEVER, promised, ~unpublished)
        over = self._forgotten(self.position) & (self.routed == NEVER) & (self.first < NEVER)
        absent = self.absent < NEVER
        doubts = self._timeline.doubts(self.last, self.absent)
        self.msg_id = np.where(over & (self.msg_id < 0), self.position, self.msg_id)
        ended = over | (self.end < NEVER) | ((self.ended >= 0) & (absent | (self.ended >= self.last)))
        # The first condition that holds decides: a gap (`doubts`) comes before `promised`, so it is never a loss.
        verdict = np.select(
            [ended, ~absent, self.kept == 0, doubts, promised],
            [SETTLED, QUEUED, NOT_KEPT, UNKNOWN, LOST],
            NOT_CONFIRMED,
        )
        violations = np.stack(self._violations(unpublished, lives, known, over), axis=1)
        heard = self.first < NEVER
        rows = self._table(verdict, violations, origin)
        rows = rows if heard.all() else rows.filter(pa.array(heard))
        unknown = (verdict == UNKNOWN) & heard
        counts, missing = self._messages()
        in_doubt = self._timeline.in_doubt(self.last[unknown], self.absent[unknown])
        ends = self._ends(verdict, violations.any(axis=1), over)
        return Judged(pa.concat_tables([rows, missing]), in_doubt, counts, self.in_order, ends, missing.num_rows)

    def _forgotten(self, numbers: Any) -> Any:
        """True for numbers of messages that may have been forgotten, because they were over."""
        found = np.zeros(len(numbers), bool)
        for boot, last in self._node.forgotten.items():
            found |= (boot_of(numbers) == boot) & (numbers <= last)
        return found

    def _ends(self, verdict: Any, wrong: Any, forgotten: Any) -> Ends:
        number = np.where(self.msg_id < 0, self.position, self.msg_id)
        expected = wrong | np.isin(verdict, (QUEUED, LOST, UNKNOWN))
        over, again = np.maximum(np.where(self.end < NEVER, self.end, self.absent), self.last), self.place[forgotten]
        of_rows = np.empty(len(self._order), np.int64)
        of_rows[self._order] = number[self._groups.of_rows]
        return Ends(number, np.where(expected, NEVER, over), of_rows, number[self._delivered], self._overtaken, again)

    def _messages(self) -> tuple[Counts, pa.Table]:
        """Count the messages; returns rows for those that are missing in a queue."""
        node = self._node
        numbers = {place: number for number, place in enumerate(node.places)}

        def arrived(place: Place) -> Any:
            rows = slice(*np.searchsorted(self.place, [numbers.get(place, -1), numbers.get(place, -1) + 1]))
            return self.msg_id[rows][self.routed[rows] < NEVER]

        bindings = Bindings(node.bound, node.told)
        messages = Messages(node.name, node.messages, self._timeline, self._forgotten)
        return messages.judge(bindings, node.routes, arrived)

    def _origin(self) -> Origin:
        """Look up each copy's message."""
        messages = self._node.messages
        numbers = messages.column("msg_id").to_numpy()
        groups = Groups(numbers)
        numbers = np.append(numbers[groups.order][groups.starts], NEVER)
        at = np.searchsorted(numbers, self.msg_id)
        at = np.where(numbers[at] == self.msg_id, at, len(groups))

        def found(name: str, merge: Callable[[Any], Any], otherwise: Any) -> Any:
            return np.append(merge(messages.column(name).to_numpy()[groups.order]), otherwise)[at]

        told = messages.column("properties").is_valid().to_numpy()[groups.order]
        return Origin(
            publish_us=found("publish_us", groups.min, NEVER),
            confirm_us=found("confirm_us", groups.min, NEVER),
            own=found("own", groups.max, False),
            expires=found("expires", groups.max, False),
            persistent=found("persistent", groups.max, -1),
            size_bytes=found("size_bytes", groups.max, -1),
            described=np.append(groups.first(told, groups.order, -1), -1)[at],
        )

    def _unpublished(self) -> Any:
        """Copies that were delivered without ever having entered their queue, although the log is complete there."""
        suspects = (self.routed == NEVER) & (self.first_kind != CODES["queued"]) & (self.deliveries > 0)
        rows = np.flatnonzero(suspects)
        suspects[rows] = self._timeline.complete(self.position[rows] >> SEQ_BITS, self.first[rows])
        return suspects

    def _violations(self, unpublished: Any, lives: Lives, known: Facts, over: Any) -> Sequence[Any]:
        """Return a mask of copies for each of VIOLATIONS; `over`: those whose message was over, and forgotten."""
        rows, groups, boots, end, timeline = self._rows, self._groups, self._lives, self.end, self._timeline
        settings = QueueSettings(self._node.told, self._node.places)
        delivered_in = self._of_lives(boots.sum(rows["deliveries"]) > 0)
        again, died = timeline.after(self.last_delivered, end), groups.max(rows["died"])
        sure = np.zeros(len(over), bool)
        sure[over] = self._timeline.whole(boot_of(self.position[over]))
        again |= sure & (self.deliveries > 0)
        ends = self._of_lives(boots.sum(rows["ends"]) > 1) > 0
        twice = (ends | timeline.after(self.settled, end) | (sure & (self.settled >= 0))) & ~again
        unannounced = copy_rules.unannounced(known, timeline, settings) & ~self._forgotten(self.msg_id)
        early = copy_rules.early(known)
        recorded = timeline.after(self.queued, end) & (
            (boot_of(self.queued) > boot_of(end)) | self._timeline.recorded_at_stop(self.queued)
        )
        return (
            again,
            recorded | (sure & (self.queued >= 0)),
            groups.sum(rows["new"]) > delivered_in,
            self._unordered(unpublished | unannounced | early),
            twice,
            copy_rules.held_twice(lives, timeline),
            unpublished & ~over,
            self._new_again(),
            (groups.sum(rows["due"]) > groups.sum(rows["dead_letters"])) & ~timeline.torn(died, died + NEARBY_EVENTS),
            groups.sum(rows["dead_letters"]) > np.maximum(groups.sum(rows["deaths"]), 1),
            copy_rules.settled_undelivered(lives, timeline) & ~twice & ~over,
            copy_rules.taken_from_a_consumer(lives, timeline),
            unannounced,
            early,
            known.routes > 1,
            copy_rules.marked_at_first(lives, known, timeline),
            copy_rules.expired_without_ttl(known, timeline, settings),
            copy_rules.dropped_without_limit(known, timeline, settings),
            copy_rules.released_without_delay(known, timeline, settings),
            copy_rules.undelivered_death(known, timeline, settings),
            copy_rules.wrong_dead_letter(known, timeline, settings),
            copy_rules.unfounded(known, lives, timeline) & ~over,
            copy_rules.absent_between(lives, boots, known, end, timeline),
            copy_rules.routed_into_nothing(known, settings),
            copy_rules.moved_in_place(known, self.before, self.over, settings),
            copy_rules.not_kept(known, settings),
        )

    def _of_lives(self, chosen: Any) -> Any:
        """Count the chosen boots of each copy."""
        return np.bincount(self._copy_of_life[chosen], minlength=len(self.place))

    def _unordered(self, strangers: Any) -> Any:
        """Copies whose first delivery came after that of a copy at a higher position.

        `strangers` have no place in the order: they were not published, or delivered before they came. Each boot is
        judged by itself, because unacknowledged messages return to their queue at a start.
        """
        rows, ordered = self._lives, self._ordered_places()
        first, last = rows.min(self._rows["first_new"]), rows.max(self._rows["last_new"])
        judged = np.array([place in ordered for place in self._node.places], bool)
        copies = self._copy_of_life
        chosen = np.flatnonzero((last >= 0) & judged[self.place[copies]] & ~strangers[copies])
        mine = copies[chosen]
        self.in_order = Deliveries(
            self.place[mine], boot_of(last[chosen]), self.position[mine], first[chosen], last[chosen]
        )
        self._delivered, self._overtaken = mine, overtaken(self.in_order, self._node.overtakers)
        return self._of_lives(chosen[self._overtaken]) > 0

    def _ordered_places(self) -> set[Place]:
        return {
            each.place
            for each in self._node.told
            if each.kind == "declare"
            and each.detail["max_priority"] == 0
            and each.detail["type"] in ("classic", "quorum")
        }

    def _new_again(self) -> Any:
        """Copies that were delivered as new again in a later boot, although the first delivery was on disk."""
        rows = self._rows
        seen = self._groups.min(self._timeline.certain(np.where(rows["new"] > 0, rows["first_new"], NEVER)))
        last = self._groups.max(rows["last_new"])
        return (last >= 0) & self._timeline.after(last, seen) & (boot_of(last) > boot_of(seen))

    # The table

    def _table(self, verdict: Any, violations: Any, origin: Origin) -> pa.Table:
        size = len(self.place)
        ended, guilty = self.end < NEVER, np.nonzero(violations)
        wrong = violations.any(axis=1)
        wanted = (verdict > QUEUED) | wrong
        vhosts, queues = ([place[at] for place in self._node.places] for at in (0, 1))
        columns = {
            "node": pa.repeat(pa.scalar(self._node.name), size),
            "vhost": pa.array(vhosts, pa.string()).take(pa.array(self.place)),
            "queue": pa.array(queues, pa.string()).take(pa.array(self.place)),
            "position": self.position,
            "msg_id": pa.array(self.msg_id, mask=self.msg_id < 0),
            "verdict": pa.array(VERDICTS).take(pa.array(verdict)),
            "violations": _lists(guilty[0], guilty[1], size, pa.array(VIOLATIONS)),
            "how": pa.array(HOW).take(pa.array(self.how, mask=~ended)),
            "publish_ts": _times(origin.publish_us),
            "confirm_ts": _times(origin.confirm_us),
            "first_deliver_ts": _times(self.first_deliver_us),
            "deliver_count": self.deliveries,
            "ack_count": self.acks,
            "boots": self._boots(),
            "first": self.first,
            "last": self.last,
            "absent": pa.array(self.absent, mask=self.absent >= NEVER),
            "evidence": self._evidence(wanted, ended),
            "size_bytes": pa.array(origin.size_bytes, mask=~wanted | (origin.size_bytes < 0)),
            "properties": self._properties(np.where(wanted, origin.described, -1)),
            "seen": seen(
                (verdict == LOST) | wrong,
                self._rows,
                self._groups,
                self._node.messages,
                self.msg_id,
                (self.end, self.ended),
            ),
        }
        return pa.table([pa.array(columns[field.name]).cast(field.type) for field in SCHEMA], schema=SCHEMA)

    def _properties(self, rows: Any) -> pa.Array:
        """Take properties from rows of the table of messages; null for -1."""
        if (rows < 0).all():
            return pa.nulls(len(rows), pa.string())
        return self._node.messages.column("properties").take(pa.array(rows, mask=rows < 0)).combine_chunks()

    def _boots(self) -> pa.ListArray:
        boots = boot_of(self._rows["last"])[self._lives.starts]
        return _lists(self._copy_of_life[boots >= 0], boots[boots >= 0], len(self.place), None)

    def _evidence(self, wanted: Any, ended: Any) -> pa.Array:
        """Texts of the last event of a copy and the record from which it is absent; null for copies without fault."""
        texts = np.full(len(wanted), None, object)
        for row in np.flatnonzero(wanted):
            text = f"last: {HOW[self.last_kind[row]]} in {where(self.last[row])}"
            if not ended[row] and self.absent[row] < NEVER:
                text += f"; absent from the record at {where(self.absent[row])}"
            texts[row] = text
        return pa.array(texts, pa.string())


def _times(microseconds: Any) -> pa.Array:
    return pa.array(microseconds, mask=microseconds >= NEVER).cast(TIME)


def _lists(rows: Any, values: Any, size: int, names: pa.Array | None) -> pa.ListArray:
    """Build a list for each row, of values that are in the order of rows."""
    offsets = np.searchsorted(rows, np.arange(size + 1)).astype(np.int32)
    content = pa.array(values) if names is None else names.take(pa.array(values))
    return pa.ListArray.from_arrays(pa.array(offsets), content)
