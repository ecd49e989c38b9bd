"""Rules on what must never happen to a copy: each is a function of columns, and returns a mask of copies.

A rule accuses no copy if a gap in the log, or an argument of its queue that the log does not tell, may explain what is
found. So it may be applied to the copies of some messages, without those of others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pipeline.audit.log_timeline import NEARBY_EVENTS, LogTimeline, boot_of
from pipeline.audit.queue_settings import (
    DEAD_KEY,
    DEAD_TO,
    DELAYS,
    DURABLE,
    GONE,
    LENGTH,
    QUORUM,
    RETURNS,
    TTL,
    WAITS,
    QueueSettings,
)
from pipeline.audit.reduction import (
    CODES,
    NEVER,
    NOWHERE,
    REASONS,
    SEQ_BITS,
    SETTLEMENTS,
    TAKEN,
    Sorted,
    is_one_of,
)

DELIVER, REQUEUE = CODES["deliver"], CODES["requeue"]
DIED = ("reject", "expire", "drop")
"""Kinds of ends by which a message dies: it is dead-lettered if its queue has a dead-letter exchange."""
MAXLEN, DELIVERY_LIMIT = REASONS.index("maxlen"), REASONS.index("delivery_limit")


class Lives(NamedTuple):
    """Reduced rows by copy and time, and the groups of rows of a copy."""

    rows: dict[str, Any]
    groups: Sorted


class Facts(NamedTuple):
    """Columns of copies: places, positions and message numbers; moments of route, of first and last event and of first
    death; counts of routes, deliveries, deaths and publishes that name one; exchange of the first death, and exchange,
    key and last moment of these publishes; the first end, whatever became of it, and its kind and reason; whether it
    survives restarts, and whether its publisher wanted that; whether the broker published the message, whether anybody
    did, whether that had an expiration; whether the copy came from another place of its queue.
    """

    place: Any
    position: Any
    msg_id: Any
    routed: Any
    first: Any
    last: Any
    routes: Any
    deliveries: Any
    deaths: Any
    dead_letters: Any
    letter: Any
    letter_to: Any
    letter_key: Any
    died: Any
    dead_reason: Any
    dead_to: Any
    ending: Any
    ending_kind: Any
    ending_reason: Any
    kept: Any
    persistent: Any
    published: Any
    own: Any
    expires: Any
    moved: Any


def facts(lives: Lives, **of_message: Any) -> Facts:
    """Merge the rows of each copy. `of_message`: the columns that are not in them."""
    rows, groups = lives
    ending, dead, letter = rows["end"] < NEVER, rows["deaths"] > 0, rows["letter"] >= 0
    return Facts(
        **of_message,
        place=rows["place"][groups.starts],
        position=rows["position"][groups.starts],
        routed=groups.min(rows["routed"]),
        first=groups.min(rows["first"]),
        last=groups.max(rows["last"]),
        routes=groups.sum(rows["routes"]),
        deliveries=groups.sum(rows["deliveries"]),
        deaths=groups.sum(rows["deaths"]),
        dead_letters=groups.sum(rows["dead_letters"]),
        letter=groups.max(rows["letter"]),
        letter_to=groups.first(letter, rows["letter_to"], NOWHERE),
        letter_key=groups.first(letter, rows["letter_key"], NOWHERE),
        died=groups.max(rows["died"]),
        dead_reason=groups.first(dead, rows["dead_reason"], 0),
        dead_to=groups.first(dead, rows["dead_to"], NOWHERE),
        ending=groups.min(rows["end"]),
        ending_kind=groups.first(ending, rows["end_kind"], 0),
        ending_reason=groups.first(ending, rows["end_reason"], 0),
        kept=groups.max(rows["kept"]),
    )


# Who had it: two moves that must not follow each other


def held_twice(lives: Lives, timeline: LogTimeline) -> Any:
    """Copies that were delivered while they were out already."""
    return _followed(lives, timeline, "held", (DELIVER,), ("deliver",))


def taken_from_a_consumer(lives: Lives, timeline: LogTimeline) -> Any:
    """Copies that expired, were dropped or released while a consumer had them."""
    return _followed(lives, timeline, "taken", (DELIVER,), TAKEN)


def settled_undelivered(lives: Lives, timeline: LogTimeline) -> Any:
    """Copies that were acknowledged, rejected or requeued and had not been delivered in that boot, or not again."""
    rows, groups = lives
    found = _followed(lives, timeline, "unheld", (REQUEUE,), SETTLEMENTS)
    moved = np.flatnonzero(rows["turns"] > 0)
    group, boot = groups.of_rows[moved], boot_of(rows["last"][moved])
    begins = np.ones(len(moved), bool)
    begins[1:] = (group[1:] != group[:-1]) | (boot[1:] != boot[:-1])
    first = moved[begins & is_one_of(rows["move_first"][moved], SETTLEMENTS)]
    since = boot_of(rows["last"][first]) << SEQ_BITS
    mask = np.zeros(len(rows["turns"]), bool)
    mask[first] = ~(rows["torn"][first] | timeline.torn(since, rows["first"][first]))
    return found | groups.max(mask)


def _followed(lives: Lives, timeline: LogTimeline, name: str, before: Sequence[int], after: tuple[str, ...]) -> Any:
    """Copies with two moves in a row of these kinds in one boot, without a gap in the log in between."""
    rows, groups = lives
    found = rows[name].copy()
    turns = np.flatnonzero(rows["turns"] > 0)
    group, boot = groups.of_rows[turns], boot_of(rows["last"][turns])
    same = (group[1:] == group[:-1]) & (boot[1:] == boot[:-1])
    left = np.isin(rows["move_last"][turns[:-1]], before)
    pairs = np.flatnonzero(same & left & is_one_of(rows["move_first"][turns[1:]], after))
    one, two = turns[pairs], turns[pairs + 1]
    found[two] |= ~timeline.torn(rows["first"][one], rows["last"][two])
    return groups.max(found)


# Where it came from


def unannounced(facts: Facts, timeline: LogTimeline, settings: QueueSettings) -> Any:
    """Copies that entered their queue and were never published, although the log is complete there.

    A dead letter that waits in its quorum queue has a position that nobody published.
    """
    suspects = (facts.routed < NEVER) & ~facts.published & ~facts.moved

    def guilty(rows: Any) -> Any:
        told = timeline.complete(boot_of(facts.msg_id[rows]), facts.routed[rows])
        return told & settings.never(WAITS, facts.place[rows], facts.routed[rows] + NEARBY_EVENTS)

    return _judged(suspects, guilty)


def unfounded(facts: Facts, lives: Lives, timeline: LogTimeline) -> Any:
    """Copies that a full record names, and that never entered their queue, although the log is complete there."""
    rows, groups = lives
    suspects = (facts.routed == NEVER) & (groups.max(rows["queued"]) >= 0)
    return _judged(suspects, lambda at: timeline.complete(boot_of(facts.position[at]), facts.first[at]))


def early(facts: Facts) -> Any:
    """Copies of which something was heard before they entered their queue."""
    return (facts.routed < NEVER) & (facts.first < facts.routed)


def marked_at_first(lives: Lives, facts: Facts, timeline: LogTimeline) -> Any:
    """Copies whose first delivery was marked as redelivered, in the boot in which a client had published them.

    After a start a broker may not know whether a message was delivered before. A dead letter may carry its mark.
    """
    rows, groups = lives
    again = groups.first((rows["first_again"] < NEVER) | (rows["first_new"] < NEVER), rows["first_again"], NEVER)
    fresh = (facts.routed < again) & (boot_of(again) == boot_of(facts.routed))
    suspects = fresh & (again < NEVER) & facts.published & ~facts.own & ~facts.moved
    return _judged(suspects, lambda rows: ~timeline.torn(facts.routed[rows], again[rows]))


def absent_between(lives: Lives, of_lives: Sorted, facts: Facts, end: Any, timeline: LogTimeline) -> Any:
    """Copies that were missing from a full record without an end, and of which something was heard again later."""
    rows, groups = lives
    copy = groups.of_rows[of_lives.starts]
    last, first = of_lives.max(rows["last"])[:-1], of_lives.min(rows["first"])[1:]
    kind = of_lives.last(rows["last"] >= 0, rows["last_kind"], 0)[:-1]
    same = np.flatnonzero((copy[1:] == copy[:-1]) & (facts.kept[copy[1:]] != 0) & (last >= 0) & (first < NEVER))
    absent = timeline.absent(last[same], kind[same] == CODES["queued"])
    back = same[(absent < first[same]) & (absent < end[copy[same]]) & ~timeline.doubts(last[same], absent)]
    found = np.zeros(len(groups), bool)
    found[copy[back + 1]] = True
    return found


def routed_into_nothing(facts: Facts, settings: QueueSettings) -> Any:
    """Copies that entered a queue after it had been deleted."""
    return _judged(facts.routed < NEVER, lambda rows: settings.was(GONE, facts.place[rows], facts.routed[rows]))


def not_kept(facts: Facts, settings: QueueSettings) -> Any:
    """Copies of persistent messages that do not survive a restart, in a queue that does."""
    suspects = (facts.kept == 0) & (facts.persistent > 0) & (facts.routed < NEVER)
    return _judged(suspects, lambda rows: settings.was(DURABLE, facts.place[rows], facts.routed[rows]))


def moved_in_place(facts: Facts, before: Any, over: Any, settings: QueueSettings) -> Any:
    """Copies that came from another place of their queue, which moves none; or when they had ended there.

    `before` is the copy's former place, -1 for none; `over` says when a copy ended that nothing takes up again.
    """

    def guilty(rows: Any) -> Any:
        fixed = settings.never(QUORUM, facts.place[rows], facts.routed[rows])
        waits = ~settings.never(WAITS, facts.place[rows], facts.routed[rows])
        died = is_one_of(facts.ending_kind[before[rows]], DIED) & waits
        return fixed | ((over[before[rows]] < facts.routed[rows]) & ~died)

    return _judged(facts.moved & (before >= 0), guilty)


# Where it went


def expired_without_ttl(facts: Facts, timeline: LogTimeline, settings: QueueSettings) -> Any:
    """Copies that expired, though their publisher gave them no time to live, nor their queue since they came."""
    suspects = (facts.ending_kind == CODES["expire"]) & facts.published & ~facts.expires
    return _judged(suspects, lambda rows: _lacked(facts, timeline, settings, rows, TTL))


def dropped_without_limit(facts: Facts, timeline: LogTimeline, settings: QueueSettings) -> Any:
    """Copies that a limit removed which their queue has not had since they came: of length or bytes, or of deliveries.

    A limit of deliveries removes none that has not been delivered.
    """
    dropped, reason = facts.ending_kind == CODES["drop"], facts.ending_reason
    length = _judged(
        dropped & (reason != DELIVERY_LIMIT), lambda rows: _lacked(facts, timeline, settings, rows, LENGTH)
    )
    returns = _judged(dropped & (reason != MAXLEN), lambda rows: _lacked(facts, timeline, settings, rows, RETURNS))
    fresh = dropped & (reason == DELIVERY_LIMIT) & (facts.deliveries == 0) & facts.published & ~facts.own & ~facts.moved
    fresh &= facts.routed < NEVER
    undelivered = _judged(fresh, lambda rows: ~timeline.torn(facts.routed[rows], facts.ending[rows]))
    return np.select([reason == MAXLEN, reason == DELIVERY_LIMIT], [length, returns | undelivered], length & returns)


def released_without_delay(facts: Facts, timeline: LogTimeline, settings: QueueSettings) -> Any:
    """Copies that left a queue as due, or for another queue, though it delays nothing and nothing went elsewhere."""
    suspects = (facts.ending_kind == CODES["release"]) & (facts.dead_letters == 0)
    waits = _judged(suspects, lambda rows: _lacked(facts, timeline, settings, rows, WAITS))
    return waits & _judged(suspects, lambda rows: _lacked(facts, timeline, settings, rows, DELAYS))


def _lacked(facts: Facts, timeline: LogTimeline, settings: QueueSettings, rows: Any, column: int) -> Any:
    """True where a queue has not had something since the copy came, by a log that tells all of that time.

    A copy that came from another place of its queue has what it got there. What a limit removes, it removes by the
    limits since the start.
    """
    ending, routed = facts.ending[rows], facts.routed[rows]
    if column in (LENGTH, RETURNS):
        span, boot = _span(facts, rows, ending), boot_of(ending)
    else:
        since = np.where(facts.moved[rows] | (routed == NEVER), 0, routed)
        span, boot = (facts.place[rows], since, ending), boot_of(np.where(since > 0, since, facts.msg_id[rows]))
    return timeline.complete(boot, ending) & settings.lacked(column, *span)


def undelivered_death(facts: Facts, timeline: LogTimeline, settings: QueueSettings) -> Any:
    """Copies that died in a queue with a dead-letter exchange, and no dead letter of theirs was to be published."""
    suspects = is_one_of(facts.ending_kind, DIED) & (facts.deaths == 0)

    def guilty(rows: Any) -> Any:
        ending = facts.ending[rows]
        never_without = ~settings.had(DEAD_TO, np.full(len(rows), NOWHERE), *_span(facts, rows, ending))
        return never_without & timeline.complete(boot_of(ending), ending) & ~_nearby(timeline, ending)

    return _judged(suspects, guilty)


def wrong_dead_letter(facts: Facts, timeline: LogTimeline, settings: QueueSettings) -> Any:
    """Copies whose dead letter was for another exchange or key than their queue's, or for another reason than their
    death's; or that had none to have.

    A copy that never was in the queue, because that was full, has no event of its own there.
    """
    heard = facts.first < NEVER
    dead, written = heard & (facts.deaths > 0), heard & (facts.letter >= 0)
    return (
        _judged(dead, lambda rows: _unlike_its_queue(facts, timeline, settings, rows))
        | _judged(dead, lambda rows: _unlike_its_end(facts, timeline, rows))
        | _judged(dead & written, lambda rows: _unlike_its_death(facts, settings, rows))
        | _judged(written & (facts.deaths == 0), lambda rows: _of_the_living(facts, timeline, settings, rows))
    )


def _unlike_its_queue(facts: Facts, timeline: LogTimeline, settings: QueueSettings, rows: Any) -> Any:
    died = facts.died[rows]
    elsewhere = ~settings.had(DEAD_TO, facts.dead_to[rows], *_span(facts, rows, died))
    return elsewhere & timeline.complete(boot_of(died), died)


def _unlike_its_end(facts: Facts, timeline: LogTimeline, rows: Any) -> Any:
    alike = is_one_of(facts.ending_kind[rows], DIED) & (facts.dead_reason[rows] == facts.ending_reason[rows])
    return (facts.dead_reason[rows] > 0) & ~alike & ~timeline.torn(facts.first[rows], facts.died[rows])


def _unlike_its_death(facts: Facts, settings: QueueSettings, rows: Any) -> Any:
    """A queue that keeps dead letters may publish them when it has another exchange."""
    span = _span(facts, rows, facts.letter[rows])
    keyless = settings.had(DEAD_KEY, np.full(len(rows), NOWHERE), *span)
    elsewhere = (facts.letter_to[rows] != facts.dead_to[rows]) | ~(
        keyless | settings.had(DEAD_KEY, facts.letter_key[rows], *span)
    )
    return elsewhere & settings.never(WAITS, facts.place[rows], facts.letter[rows])


def _of_the_living(facts: Facts, timeline: LogTimeline, settings: QueueSettings, rows: Any) -> Any:
    """Copies that went on living where they were: what moves to another queue is released."""
    letter = facts.letter[rows]
    living = (facts.last[rows] > letter) & (facts.ending_kind[rows] != CODES["release"])
    alone = settings.never(WAITS, facts.place[rows], letter)
    return living & alone & ~timeline.torn(facts.first[rows], letter) & ~_nearby(timeline, letter)


def _span(facts: Facts, rows: Any, until: Any) -> tuple[Any, Any, Any]:
    """Queues, and the time in which copies could get what they had at a moment of their death: in that boot."""
    routed = np.where(facts.routed[rows] < NEVER, facts.routed[rows], 0)
    return facts.place[rows], np.maximum(routed, boot_of(until) << SEQ_BITS), until


def _nearby(timeline: LogTimeline, moments: Any) -> Any:
    return timeline.torn(moments, moments + NEARBY_EVENTS)


def _judged(suspects: Any, guilty: Any) -> Any:
    """Ask of the suspects alone, which are few."""
    rows = np.flatnonzero(suspects)
    found = np.zeros(len(suspects), bool)
    if len(rows):
        found[rows] = guilty(rows)
    return found
