"""Rules on what must never happen to a copy: each is a function of columns, and returns a mask of copies.

A rule accuses no copy if a gap in the log, or an argument of its queue that the log does not tell, may explain what is
found. So it may be applied to the copies of some messages, without those of others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pipeline.audit.log_timeline import NEARBY_EVENTS, LogTimeline, boot_of
from pipeline.audit.queue_settings import DELAYS, LENGTH, RETURNS, TTL, WAITS, QueueSettings
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
    """Columns of copies: places, positions and message numbers; moments of route, of first event and of first death;
    counts of routes, deliveries, dead letters to be expected and publishes that name a death; the first end, whatever
    became of it, and its kind and reason; whether clients published the message, whether anybody did, whether that
    had an expiration; whether the copy came from another place of its queue.
    """

    place: Any
    position: Any
    msg_id: Any
    routed: Any
    first: Any
    routes: Any
    deaths: Any
    dead_letters: Any
    died: Any
    dead_reason: Any
    dead_to: Any
    ending: Any
    ending_kind: Any
    ending_reason: Any
    published: Any
    own: Any
    expires: Any
    moved: Any


def facts(lives: Lives, **of_message: Any) -> Facts:
    """Merge the rows of each copy. `of_message`: the columns that are not in them."""
    rows, groups = lives
    ending, dead = rows["end"] < NEVER, rows["deaths"] > 0
    return Facts(
        **of_message,
        place=rows["place"][groups.starts],
        position=rows["position"][groups.starts],
        routed=groups.min(rows["routed"]),
        first=groups.min(rows["first"]),
        routes=groups.sum(rows["routes"]),
        deaths=groups.sum(rows["deaths"]),
        dead_letters=groups.sum(rows["dead_letters"]),
        died=groups.max(rows["died"]),
        dead_reason=groups.first(dead, rows["dead_reason"], 0),
        dead_to=groups.first(dead, rows["dead_to"], NOWHERE),
        ending=groups.min(rows["end"]),
        ending_kind=groups.first(ending, rows["end_kind"], 0),
        ending_reason=groups.first(ending, rows["end_reason"], 0),
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


# Where it went


def expired_without_ttl(facts: Facts, timeline: LogTimeline, settings: QueueSettings) -> Any:
    """Copies that expired, though neither the publisher nor the queue ever gave them a time to live."""
    suspects = (facts.ending_kind == CODES["expire"]) & facts.published & ~facts.expires
    return _judged(suspects, lambda rows: _never(facts, timeline, settings, rows, TTL, facts.msg_id))


def dropped_without_limit(facts: Facts, timeline: LogTimeline, settings: QueueSettings) -> Any:
    """Copies that a limit removed which their queue never had: of length or bytes, or of deliveries."""
    dropped = facts.ending_kind == CODES["drop"]
    found = np.zeros(len(dropped), bool)
    for reason, limit in ((MAXLEN, LENGTH), (DELIVERY_LIMIT, RETURNS)):
        suspects = dropped & (facts.ending_reason == reason)
        found |= _judged(suspects, lambda rows, it=limit: _never(facts, timeline, settings, rows, it, facts.ending))
    return found


def released_without_delay(facts: Facts, timeline: LogTimeline, settings: QueueSettings) -> Any:
    """Copies that left a queue as due, or for another queue, though it delays nothing and nothing went elsewhere."""
    suspects = (facts.ending_kind == CODES["release"]) & (facts.dead_letters == 0)
    waits = _judged(suspects, lambda rows: _never(facts, timeline, settings, rows, WAITS, facts.ending))
    return waits & _judged(suspects, lambda rows: _never(facts, timeline, settings, rows, DELAYS, facts.ending))


def _never(facts: Facts, timeline: LogTimeline, settings: QueueSettings, rows: Any, column: int, since: Any) -> Any:
    """True where a queue never had something, and the log has all of it from the boot of `since` on."""
    told = timeline.complete(boot_of(since[rows]), facts.ending[rows])
    return told & settings.never(column, facts.place[rows], facts.ending[rows])


def undelivered_death(facts: Facts, timeline: LogTimeline, settings: QueueSettings) -> Any:
    """Copies that died in a queue with a dead-letter exchange, and no dead letter of theirs was to be published."""
    suspects = is_one_of(facts.ending_kind, DIED) & (facts.deaths == 0)

    def guilty(rows: Any) -> Any:
        ending = facts.ending[rows]
        known, exchange = settings.dead_to(facts.place[rows], boot_of(ending) << SEQ_BITS, ending)
        told = timeline.complete(boot_of(ending), ending) & ~timeline.torn(ending, ending + NEARBY_EVENTS)
        return known & (exchange != NOWHERE) & told

    return _judged(suspects, guilty)


def wrong_dead_letter(facts: Facts, timeline: LogTimeline, settings: QueueSettings) -> Any:
    """Copies whose dead letter was for another exchange than their queue's, or for another reason than their death's.

    A copy that never was in the queue, because that was full, has no event of its own there.
    """
    heard = facts.first < NEVER
    suspects = heard & (facts.deaths > 0)

    def guilty(rows: Any) -> Any:
        died, kind = facts.died[rows], facts.ending_kind[rows]
        since = boot_of(died) << SEQ_BITS
        known, exchange = settings.dead_to(facts.place[rows], since, died)
        elsewhere = known & (exchange != facts.dead_to[rows]) & timeline.complete(boot_of(died), died)
        alike = is_one_of(kind, DIED) & (facts.dead_reason[rows] == facts.ending_reason[rows])
        otherwise = (facts.dead_reason[rows] > 0) & ~alike & ~timeline.torn(facts.first[rows], died)
        return elsewhere | otherwise

    return _judged(suspects, guilty)


def _judged(suspects: Any, guilty: Any) -> Any:
    """Ask of the suspects alone, which are few."""
    rows = np.flatnonzero(suspects)
    found = np.zeros(len(suspects), bool)
    if len(rows):
        found[rows] = guilty(rows)
    return found
