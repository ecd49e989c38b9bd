"""Latencies on a busy machine: p99 with two busy loops beside to p99 without, ours beside that of other brokers.

    python -m bench.busy_machine --ours HOST:PORT,PID --beside 'RabbitMQ 4.3.6=HOST:PORT,PID,quorum' [--rounds 5]

Without --ours a broker of this checkout is started. A round is every load quiet and then busy, each on all brokers
directly one after the other. The medians of the rounds count. Start the brokers with `setsid` (bench/README.md).
"""

from __future__ import annotations

import statistics
from contextlib import ExitStack

from bench.figures.measured_loads import Peer, Run
from bench.figures.sittings import OURS
from bench.load.measured_broker import own_broker, report, target_of
from bench.release import measure, named_peer, sitting_parser

LOADS = ("lone", "pika", "queues-16")
GOAL = 2.0
"""Largest multiple of the other broker's ratio."""


def main() -> None:
    """Measure, and print one line for each load and broker, and one for each load and broker beside."""
    options = sitting_parser("bench.busy_machine", __doc__, rounds=5).parse_args()
    with ExitStack() as stack:
        ours = options.ours or target_of(stack.enter_context(own_broker()))
        peers = {OURS: Peer(ours), **dict(map(named_peer, options.beside))}
        wanted = [name for load in LOADS for name in (load, f"{load}-busy")]
        found, _ = measure(peers, wanted, range(options.rounds), options.seconds)
    for load in LOADS:
        ratios = {name: _report(load, name, found[load][name], found[f"{load}-busy"][name]) for name in peers}
        for name in list(peers)[1:]:
            times = round(ratios[OURS] / ratios[name], 2)
            report(f"{load}: our ratio to that of {name}", times=times, goal=GOAL, holds=times <= GOAL)


def _report(load: str, name: str, quiet: list[Run], busy: list[Run]) -> float:
    """Print both p99 of a broker, and return the busy one to the quiet one."""
    before, beside = (statistics.median(run.p99_ms for run in runs) for runs in (quiet, busy))
    report(
        f"{load}: {name}", quiet_p99_ms=round(before, 2), busy_p99_ms=round(beside, 2), ratio=round(beside / before, 2)
    )
    return beside / before


if __name__ == "__main__":
    main()
