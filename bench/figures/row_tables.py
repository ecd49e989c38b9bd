"""Tables of the figures of rows, for pages: what one machine holds, and what health checks cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bench.clients.health_check_costs import CHECKS
from bench.clients.health_check_costs import ROW as CHECK
from bench.figures.row_figures import (
    BACKLOG,
    BINDINGS,
    CONNECTIONS,
    EMPTY_START,
    QUEUED,
    QUEUES,
    UNACKED,
    RowFigures,
    Rows,
)


class Size(NamedTuple):
    """A line of the table: `measured` and `limit` are formats of the row's figures."""

    what: str
    row: str
    measured: str
    limit: str


SIZES = (
    Size("an empty broker", EMPTY_START, "ready in {median_s:.2f} s", "loading the program"),
    Size(
        "messages that lie in queues, after a kill",
        QUEUED,
        "10 million: ready in {ready_s:.2f} s, the first delivery {first_delivery_ms:.1f} ms after the consume",
        "the disk: memory holds the head of each queue",
    ),
    Size("their file", BACKLOG, "{file_of_all_messages:.2f} times their bytes", "the disk"),
    Size(
        "messages out with consumers",
        UNACKED,
        "1 million: {rss_anon_mib_highest:.0f} MiB",
        "memory, {bytes_each} bytes each",
    ),
    Size(
        "idle connections, a channel each",
        CONNECTIONS,
        "10,000: {kib_each:.1f} KiB each, {cores:.3f} of a core",
        "open files; `server.backlog`",
    ),
    Size(
        "durable queues, after a kill",
        QUEUES,
        "10,000: ready in {ready_s:.2f} s. `limits.queues_max` is 250,000",
        "a page of the API and metrics for each object",
    ),
    Size("bindings, after a kill", BINDINGS, "200,000: ready in {ready_s:.1f} s", "the start"),
)


def sizes(rows: Rows) -> Iterator[str]:
    """Yield what one machine holds, with the date of each figure."""
    yield _row(["what", "measured", "what limits it", "on"])
    yield _row(["---"] * 4)
    for size in SIZES:
        found = rows[size.row]
        yield _row([size.what, size.measured.format(**found.figures), size.limit.format(**found.figures), found.date])


def origins(rows: Rows) -> Iterator[str]:
    """Yield the same with the machine and the command of each figure."""
    yield _row(["what", "measured", "Leveret", "machine", "command"])
    yield _row(["---"] * 5)
    for size in SIZES:
        found = rows[size.row]
        yield _row([size.what, size.measured.format(**found.figures), *_origin(found)])


def health_checks(rows: Rows) -> Iterator[str]:
    """Yield milliseconds of CPU time of each check, and of the broker that answers it."""
    yield _row(["check", "its CPU time", "the broker's"])
    yield _row(["---"] * 3)
    for check in CHECKS:
        figures = rows[CHECK.format(check.title)].figures
        yield _row([check.title, f"{figures['cpu_ms']:g} ms", f"{figures['broker_cpu_ms']:g} ms"])
    yield ""
    yield f"Means of {figures['times']}, {rows[CHECK.format(check.title)].date}."


def _origin(found: RowFigures) -> Iterator[str]:
    yield f"{found.date}, {' '.join(filter(None, (found.commit, found.core)))}"
    yield f"{found.machine.processors} processors, of which others took {found.machine.others:g}"
    yield f"`{found.command}`"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
