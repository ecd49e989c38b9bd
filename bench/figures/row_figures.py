"""Measure rows whose figures stand in README and docs, into bench/figures/row_figures.json.

    python -m bench.figures.row_figures starts restarts backlog unacked idle declares routing health-checks
    python -m bench.figures.row_figures program-sizes
    python -m bench.figures.row_figures cores --target HOST:PORT,PID

The arguments are those of `python -m bench`, whose lines are passed on. A row of the file is replaced when it is
measured again. `python -m bench.figures.figure_page` writes the figures into the pages.
"""

from __future__ import annotations

import json
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from bench.clients.health_check_costs import CHECKS
from bench.clients.health_check_costs import ROW as CHECK
from bench.figures.core_parts import COMPARED
from bench.figures.core_parts import ROW as CORE_PART
from bench.figures.measured_loads import LOADS
from bench.figures.measured_machine import OtherPrograms, machine
from bench.figures.program_sizes import INSTALLED, SINGLE
from bench.figures.sittings import Machine
from bench.load.measured_broker import parse_target
from bench.release import today
from broker.server.start.start_line import CORE
from harness.project import ROOT

FILE = Path(__file__).parent / "row_figures.json"
EMPTY_START = "empty start"
QUEUED, BACKLOG, UNACKED = "restart with 10,000,000 x 100 B", "backlog publish", "unacked"
CONNECTIONS = "10,000 idle connections, heartbeats of 60 s"
QUEUES, BINDINGS = "restart with these queues", "restart with 2 x 100,000 bindings"
KEPT = {
    *(EMPTY_START, QUEUED, BACKLOG, UNACKED, CONNECTIONS, QUEUES, BINDINGS, INSTALLED, SINGLE),
    *(CHECK.format(check.title) for check in CHECKS),
    *(CORE_PART.format(LOADS[load].title) for load in COMPARED),
}
"""Names of the rows that are kept. Those of shrunk sizes have other names, or belong to `--part`."""


class RowFigures(msgspec.Struct, frozen=True):
    """Figures of a row as it reported them, with their origin. `core` is that of the broker of the checkout."""

    date: str
    command: str
    commit: str
    core: str
    machine: Machine
    figures: dict[str, Any]


Rows = Mapping[str, RowFigures]


def main() -> None:
    """Run the rows, and write those that are kept."""
    arguments = sys.argv[1:]
    if not arguments or "--part" in arguments or arguments[0].startswith("-"):
        sys.exit(__doc__)
    targets = [parse_target(given).pid for option, given in pairwise(arguments) if option == "--target"]
    others = OtherPrograms(targets)
    found = dict(_reported(arguments))
    command = f"python -m bench.figures.row_figures {shlex.join(arguments)}"
    core = f"CPython {platform.python_version()}, {CORE}"
    here = machine(others.processors())
    new = {row: RowFigures(today(), command, _commit(), core, here, figures) for row, figures in found.items()}
    known = msgspec.to_builtins({**read(), **new})
    FILE.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _reported(arguments: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the figures by row, and pass all lines on. Raises CalledProcessError when a row fails."""
    command = [sys.executable, "-m", "bench", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            figures = json.loads(line)
            row = figures.pop("row")
            if row in KEPT:
                yield row, figures
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)


def _commit() -> str:
    command = ["git", "rev-parse", "--short=8", "HEAD"]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def read(file: Path = FILE) -> dict[str, RowFigures]:
    """Return all rows by name."""
    return msgspec.json.decode(file.read_bytes(), type=dict[str, RowFigures])


if __name__ == "__main__":
    main()
