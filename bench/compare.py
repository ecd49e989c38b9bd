"""Two brokers in turn, scenario by scenario: medians of the ratios of single rounds.

    python -m bench.compare --ours 127.0.0.1:5672,PID --theirs 127.0.0.1:5673,PID [--rounds 5] [SCENARIO...]

Without SCENARIO all of bench/rows/rates.py. Without --ours a broker of this checkout is started. `--commands FILE`
takes scenarios of any other generator instead: lines `NAME = COMMAND`, in which {host}, {port} and {pid} are filled
in, and which print one line of JSON. A round is every scenario in order (one may drain what the one before has
filled), each run by both brokers directly one after the other. They take turns at beginning, so that drifts of the
machine fall on both.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from bench.load.generator import Figures
from bench.load.measured_broker import Target, own_broker, parse_target, report, target_of
from bench.rows.rates import SCENARIOS

Scenario = Callable[[Target], Figures]

RATE = ("messages_per_s", "consumed_per_s", "delivered_per_s")
CPU = ("cpu_us_per_message", "broker_cpu_us_per_msg")
LATENCIES = ("round_trip_ms", "confirm_ms", "delivery_ms")
FALLBACK_RATE = "published_per_s"


def main() -> None:
    """Print one line for each run, and in the end one for each scenario with the medians."""
    options = _options()
    built_in: dict[str, Scenario] = {name: partial(run, seconds=options.seconds) for name, run in SCENARIOS.items()}
    added = commands(options.commands.read_text()) if options.commands else {}
    names = options.scenarios or added or built_in
    chosen = {name: (built_in | added)[name] for name in names}
    with ExitStack() as stack:
        ours = options.ours or target_of(stack.enter_context(own_broker()))
        compare(chosen, ours, options.theirs, options.rounds)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.compare", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=", ".join(SCENARIOS))
    parser.add_argument("--ours", type=parse_target, help="HOST:PORT,PID; a broker of this checkout by default")
    parser.add_argument("--theirs", type=parse_target, required=True, help="HOST:PORT,PID")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each run of our own scenarios, after 1 s")
    parser.add_argument("--commands", type=Path, help="a file of scenarios of another generator")
    return parser.parse_args()


def commands(text: str) -> dict[str, Scenario]:
    """Scenarios from lines `NAME = COMMAND`; empty lines and those that begin with # say nothing."""
    found: dict[str, Scenario] = {}
    for line in text.splitlines():
        name, separator, command = line.partition(" = ")
        if separator and not line.startswith("#"):
            found[name.strip()] = partial(_run_command, command)
    return found


def _run_command(command: str, target: Target) -> Figures:
    host, port = target.address
    filled = [part.format(host=host, port=port, pid=target.pid) for part in shlex.split(command)]
    out = subprocess.run(filled, stdout=subprocess.PIPE, text=True, check=True).stdout
    found: Figures = json.loads(out.splitlines()[-1])
    return found


def compare(scenarios: dict[str, Scenario], ours: Target, theirs: Target, rounds: int) -> None:
    """Run all scenarios `rounds` times, each on both brokers; then print the medians of the ratios ours to theirs."""
    pairs: dict[str, list[tuple[Figures, Figures]]] = {name: [] for name in scenarios}
    for number in range(rounds):
        order = (ours, theirs) if number % 2 == 0 else (theirs, ours)
        for name, scenario in scenarios.items():
            found = {target: scenario(target) for target in order}
            pairs[name].append((found[ours], found[theirs]))
            for who, target in (("ours", ours), ("theirs", theirs)):
                report(name, round=number + 1, who=who, **found[target])
    for name in scenarios:
        report(f"{name}: median of {rounds} rounds", **medians(pairs[name]))


def medians(pairs: list[tuple[Figures, Figures]]) -> Figures:
    """Median ratios, ours to theirs, of rate, CPU time and latencies; and each side's own medians."""
    measures: dict[str, Callable[[Figures], float]] = {"rate": rate, "cpu_us": cpu}
    for latency in ("p50", "p99"):
        measures[f"{latency}_ms"] = partial(_latency, part=latency)
    result: Figures = {}
    for name, measure in measures.items():
        values = [(measure(ours), measure(theirs)) for ours, theirs in pairs]
        ratios = [ours / theirs for ours, theirs in values if theirs]
        if ratios:
            result[f"{name}_ratio"] = round(statistics.median(ratios), 3)
            result[f"{name}_ratios"] = [round(ratio, 2) for ratio in sorted(ratios)]
            result[f"{name}_ours"] = round(statistics.median(ours for ours, _ in values), 2)
            result[f"{name}_theirs"] = round(statistics.median(theirs for _, theirs in values), 2)
    return result


def rate(found: Figures) -> float:
    """Messages per second that reached their end: consumed, or published where nobody consumes."""
    reached: float = next((found[key] for key in RATE if found.get(key)), 0.0)
    return reached or float(found[FALLBACK_RATE])


def cpu(found: Figures) -> float:
    """Microseconds of the broker's CPU time for each message."""
    return float(next(found[key] for key in CPU if key in found))


def _latency(found: Figures, part: str) -> float:
    """A percentile in milliseconds: of round trips, or else of confirms, or else of deliveries; 0.0 where none is."""
    measured = next((found[key] for key in LATENCIES if found.get(key, {}).get("max")), None)
    return 0.0 if measured is None else float(measured[part])


if __name__ == "__main__":
    main()
