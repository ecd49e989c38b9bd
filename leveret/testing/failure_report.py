"""The report of a failed test about its broker: its log during the test, and the last events of queues it touched."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from leveret.testing.broker_for_tests import Broker
from leveret.testing.control_client import Event
from leveret.testing.testing_errors import LeveretError

EVENTS_MAX = 15
"""Events of each queue."""
QUEUES_MAX = 10
LOG_LINES_MAX = 60
HISTORY_MAX = 100_000

NAMES_FIRST = ("id", "event", "at", "vhost", "queue")
"""Fields at the start of a line, or in the heading."""


def sections(broker: Broker) -> Iterator[tuple[str, str]]:
    """Yield headings and texts for the report of a failed test."""
    log = broker.log_of_test().splitlines()[-LOG_LINES_MAX:]
    yield f"log of leveret at {broker.url}", "\n".join(log)
    if not broker.running:
        yield "events of leveret", "gone with its process, which does not run"
        return
    try:
        yield from _of_queues(broker.history(limit=HISTORY_MAX, bodies=False))
    except LeveretError as error:
        yield "events of leveret", str(error)


def report(broker: Broker) -> str:
    """Return all sections as one text."""
    return "\n".join(f"--- {heading} ---\n{text}" for heading, text in sections(broker))


def _of_queues(events: list[Event]) -> Iterator[tuple[str, str]]:
    by_queue = defaultdict[tuple[str, str], list[Event]](list)
    for event in events:
        if event.get("queue"):
            by_queue[str(event.get("vhost", "")), str(event["queue"])].append(event)
    latest = sorted(by_queue.items(), key=lambda item: item[1][-1]["id"])[-QUEUES_MAX:]
    for (vhost, queue), its in latest:
        lines = [_line(event) for event in its[-EVENTS_MAX:]]
        yield f"last events of queue '{queue}' in '{vhost}', {len(its)} in all", "\n".join(lines)


def _line(event: Event) -> str:
    about = {name: value for name, value in event.items() if name not in NAMES_FIRST and value not in (None, "")}
    return f"{event['id']:>6} {event['event']:<13} " + " ".join(f"{name}={value}" for name, value in about.items())
