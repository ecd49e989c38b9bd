"""docs/figures.md, its picture and the figures of other pages, made from the data files.

    python -m bench.figures.figure_page

A test makes both again and compares. `--table` prints the table of the newest sitting alone.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.figures.client_waits import client_section
from bench.figures.client_waits import read as read_client_waits
from bench.figures.figures_in_pages import MADE_WHOLE, Known, filled
from bench.figures.measured_loads import LOADS
from bench.figures.row_figures import read as read_rows
from bench.figures.sittings import OURS, Broker, Sitting, read
from harness.project import ROOT

PAGE = MADE_WHOLE
PICTURE = ROOT / "docs" / "figures" / "rates.svg"

INTRODUCTION = """\
# Figures by machine and release

Made by `python -m bench.figures.figure_page` from `bench/figures/sittings.json`, to which `python -m bench.release`
appends. Messages of 1 KiB, persistent, with confirms and an acknowledgement for each delivery, unless the load says
otherwise. Medians of the rounds; in brackets the lowest and the highest ratio of a round. CPU and latencies (of
confirms) are in the order of the brokers. Rates of one machine do not carry over to another: compare ratios.
[How to measure](../bench/README.md), [more figures](../bench/RESULTS.md).
"""

CLIENT_NOTES = """\
- Node's amqplib and amqp-connection-manager leave Nagle's algorithm on: connect, get, cancel and request wait 40 ms for
  the other side's TCP acknowledgement. Leveret acknowledges input that has no answer at once.
- Connect is five round trips; the rest is the client's own, in its first session above all.
- Declare, bind and delete are one sync of the disk, and so is a publish. RabbitMQ does not sync each message of a
  classic queue.
- amqp091-go 1.5.0 (Debian 12) may wait for ever for a deferred confirm that comes at once, here with RabbitMQ 4.3.6:
  its row uses `NotifyPublish`.
"""


def main() -> None:
    """Write the files, or print the table."""
    sittings = read()
    if "--table" in sys.argv[1:]:
        print("\n".join(table(sittings[-1])))
        return
    PICTURE.parent.mkdir(exist_ok=True)
    for path, text in made(sittings).items():
        path.write_text(text, encoding="utf-8")


def made(sittings: Sequence[Sitting]) -> dict[Path, str]:
    """Return the contents of each file."""
    from bench.figures.figure_chart import drawn  # it loads matplotlib, which takes a second

    pages = filled(Known(sittings, read_rows()))
    return {PAGE: page(sittings), PICTURE: drawn(sittings[-1]), **pages}


def page(sittings: Sequence[Sitting]) -> str:
    """Return the page: the newest sitting with its picture, and the ratios of all."""
    newest = sittings[-1]
    lines = [
        INTRODUCTION,
        f"## {newest.date}",
        "",
        *_facts(newest),
        "",
        "![Messages per second of each broker under each load](figures/rates.svg)",
        "",
        *table(newest),
        "",
        *client_section(read_client_waits()),
        "",
        CLIENT_NOTES,
        "## All sittings",
        "",
        *_history(sittings),
    ]
    return "\n".join(lines) + "\n"


def _facts(sitting: Sitting) -> Iterator[str]:
    machine = sitting.machine
    yield (
        f"{machine.processors} processors ({machine.processor}), {machine.memory_gib:g} GiB, Linux {machine.kernel},"
        f" {machine.file_system}."
    )
    rounds = max(len(runs.rate) for by_name in sitting.loads.values() for runs in by_name.values())
    yield f"Other programs took {machine.others:g} processors. {rounds} rounds of {sitting.seconds:g} s."
    yield ""
    for broker in sitting.brokers:
        yield f"- {' '.join(filter(None, (broker.name, broker.version)))}: {broker.settings}"


def table(sitting: Sitting) -> list[str]:
    """Return the table of a sitting: rates, CPU time and latencies of every broker, and our ratio to each other."""
    brokers = sitting.brokers
    others = [broker for broker in brokers if broker.name != OURS]
    titles = ["load", *(broker.name for broker in brokers), *(f"ratio to {broker.name}" for broker in others)]
    titles += ["CPU us a message", "p50 ms", "p99 ms"]
    lines = [_row(titles), _row(["---"] * len(titles))]
    for load in (name for name in LOADS if name in sitting.loads):
        cells = [LOADS[load].title, *(_number(sitting.median(load, broker.name, "rate")) for broker in brokers)]
        cells += [_ratio(sitting.ratios(load, broker.name)) for broker in others]
        cells += [_each(sitting, load, brokers, figure) for figure in ("cpu_us", "p50_ms", "p99_ms")]
        lines.append(_row(cells))
    return lines


def _history(sittings: Sequence[Sitting]) -> Iterator[str]:
    """Yield a row for each sitting: our medians, and the ratios to the brokers beside us."""
    yield _row(["date", "Leveret", "beside", *(LOADS[load].title for load in LOADS)])
    yield _row(["---"] * (3 + len(LOADS)))
    for sitting in reversed(sittings):
        ours = next(broker.version for broker in sitting.brokers if broker.name == OURS)
        yield _row([sitting.date, ours, "", *(_number(sitting.median(load, OURS, "rate")) for load in LOADS)])
        for broker in sitting.brokers:
            if broker.name != OURS:
                yield _row(["", "", broker.name, *(_ratio(sitting.ratios(load, broker.name)) for load in LOADS)])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}/s"


def _ratio(ratios: Sequence[float]) -> str:
    if not ratios:
        return ""
    return f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"


def _each(sitting: Sitting, load: str, brokers: Sequence[Broker], figure: str) -> str:
    values = [sitting.median(load, broker.name, figure) for broker in brokers]
    return ", ".join("" if value is None else f"{value:.3g}" for value in values) if any(values) else ""


if __name__ == "__main__":
    main()
