"""Rules on publishes and their answers (confirm, nack, return): each a function of columns, returns a mask of messages.

A message's rows are all of its publishes, routes and answers. So the rules may be applied to some messages alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pipeline.audit.log_timeline import LogTimeline, boot_of
from pipeline.audit.reduction import NEVER, Groups

VIOLATIONS = (
    "answered twice",
    "confirmed and refused",
    "answered before its publish",
    "answered, never published",
    "answered to another connection",
    "published twice",
    "returned, and routed",
    "confirmed before its route",
    "numbered by another boot",
    "routed too often",
    "routed before its publish",
)


class Answers(NamedTuple):
    """Columns of messages: numbers; counts; moments of the first publish, answer, arrival and confirm, and of the last
    arrival; lowest and highest number of a connection and channel; queues of the publish, -1 if unknown.
    Arrivals are routes by which it came into a queue at its own number.
    """

    number: Any
    publishes: Any
    confirms: Any
    nacks: Any
    returns: Any
    routes: Any
    arrivals: Any
    queues: Any
    published: Any
    answered: Any
    arrived: Any
    confirmed: Any
    routed_last: Any
    party_low: Any
    party_high: Any


def answers(groups: Groups, column: Any) -> Answers:
    """Merge the rows of each message; `column(name)` returns one in the order of the groups."""
    low, high, total = groups.min, groups.max, groups.sum
    return Answers(
        number=column("msg_id")[groups.starts],
        publishes=total(column("publishes")),
        confirms=total(column("confirms")),
        nacks=total(column("nacks")),
        returns=total(column("returns")),
        routes=total(column("routes")),
        arrivals=total(column("arrivals")),
        queues=high(column("queues")),
        published=low(column("published")),
        answered=low(column("answered")),
        arrived=low(column("arrived")),
        confirmed=low(column("confirmed")),
        routed_last=high(column("routed_last")),
        party_low=low(column("party_low")),
        party_high=high(column("party_high")),
    )


def violations(of: Answers, timeline: LogTimeline, forgotten: Any) -> tuple[Any, ...]:
    """Return a mask of messages for each of VIOLATIONS; the publishes of `forgotten` ones may be missing."""
    answered, published = of.answered < NEVER, of.publishes > 0
    unpublished = answered & ~published & ~forgotten
    unpublished[unpublished] = timeline.complete(boot_of(of.number[unpublished]), of.answered[unpublished])
    strange = (of.party_low != of.party_high) | (boot_of(of.answered) != boot_of(of.number))
    return (
        (of.confirms > 1) | (of.nacks > 1) | (of.returns > 1),
        (of.confirms > 0) & (of.nacks > 0),
        published & (of.answered < of.published),
        unpublished,
        answered & published & strange,
        of.publishes > 1,
        (of.returns > 0) & ((of.routes > 0) | (of.queues > 0)),
        published & (of.confirmed < of.routed_last),
        published & (boot_of(of.published) != boot_of(of.number)),
        (of.publishes == 1) & (of.queues >= 0) & (of.arrivals > of.queues),
        published & (of.arrived < of.published),
    )
