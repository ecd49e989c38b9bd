"""The pure core beside the compiled one: loads of a sitting on both in turn, as parts of the compiled one's rate."""

from __future__ import annotations

import statistics

from bench.figures.measured_loads import LOADS, Peer
from bench.load.measured_broker import Wanted, own_broker, report, target_of
from bench.release import measure

COMPARED = ("window-1000", "queues-16", "fan-out", "publish", "lone")
ROUNDS, SECONDS = 3, 4.0
PURE, COMPILED = "pure", "compiled"
ROW = "pure core: {}"
"""The name of a load's row."""


def cores(wanted: Wanted) -> None:
    """Report them for the broker of this checkout beside that of --target; without one, beside another of its own."""
    with own_broker() as pure, own_broker() as second:
        peers = {COMPILED: Peer(wanted.target or target_of(second)), PURE: Peer(target_of(pure))}
        found, others = measure(
            peers, list(COMPARED), range(ROUNDS if wanted.part == 1 else 1), wanted.seconds(SECONDS)
        )
    for load in COMPARED:
        rate, p50 = (
            {name: statistics.median(getattr(run, field) for run in runs) for name, runs in found[load].items()}
            for field in ("rate", "p50_ms")
        )
        part = round(rate[PURE] / rate[COMPILED], 2) if rate[COMPILED] else None
        report(ROW.format(LOADS[load].title), part_of_rate=part, p50_ms=[p50[COMPILED], p50[PURE]], others=others)
