"""Reads of messages 0, 1, 2, ... that are allowed after failures."""

from __future__ import annotations

from collections import Counter


def check_at_least_once(had: list[tuple[int, bool]], count: int, *, in_flight: int) -> None:
    """Every message was had; again only as redelivered, and no more of them than were in flight.

    `had` is message and its redelivered flag, in the order of arrival or in any.
    """
    times = Counter(number for number, _ in had)
    assert sorted(times) == list(range(count)), "every message was had, and no other"
    first_times = Counter(number for number, redelivered in had if not redelivered)
    assert max(first_times.values()) == 1, "whatever comes again says so"
    assert sum(times.values()) - count <= in_flight, "no more than was in flight comes again"
