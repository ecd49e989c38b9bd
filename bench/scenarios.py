"""Run the standard scenarios against a broker, one table row each.

Without arguments a broker of this checkout is started on a data directory of its own. With `--address HOST:PORT
--pid PID` another one is measured: run both one after the other on a quiet machine and compare as ratios.
"""

from __future__ import annotations

import argparse

from bench.load.loadgen import Load, Scenario
from bench.load.measured_broker import Target, Wanted, chosen, parse_target

SCENARIOS = (
    Scenario("confirm, 1 KiB, window 1000"),
    Scenario("confirm, 1 KiB, window 5000", window=5000),
    Scenario("confirm one at a time", window=1),
    Scenario("16 queues, window 32", producers=16, consumers=16, queues=16, window=32, prefetch=100),
    Scenario("transient 16 B, auto-ack", 16, persistent=False, durable=False, confirms=False, no_ack=True),
    Scenario("fan-out to 10 queues, 256 B", 256, fanout=True, queues=10, consumers=10, window=500),
)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", help="measure this broker instead of one of its own")
    parser.add_argument("--pid", type=int, help="its process id")
    options = parser.parse_args()
    named = parse_target(f"{options.address},{options.pid}") if options.address else None
    with chosen(Wanted(named)) as target:
        measure(target)


def measure(target: Target) -> None:
    """Run every scenario against one broker."""
    print("| scenario | published/s | delivered/s | CPU us/message | confirm p50 ms | p99 ms |")
    print("|---|---|---|---|---|---|")
    for scenario in SCENARIOS:
        result = Load(scenario, target.address, target.pid).run()
        print(
            f"| {scenario.name} | {result.published:,.0f} | {result.delivered:,.0f} | {result.cpu_us:.1f} "
            f"| {result.confirm_p50_ms:.2f} | {result.confirm_p99_ms:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
