"""Cost of the event log: the same load with `[events]` on and off, in turn, each round beginning with the other.

The cost of an event is the difference of the CPU time per message, divided by the events of a message. The whole
process counts, the thread that writes the log included. The log itself has the number of events. At the end, a log with
recorded properties beside one without.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from bench.compare import cpu, medians, rate
from bench.load import generator
from bench.load.generator import Figures
from bench.load.measured_broker import Target, Wanted, median, own_broker, report, target_of
from leveret_events.segment_blocks import blocks
from leveret_events.segment_names import parse_name
from storage.events.event_tail_file import parse_tail, tail_blocks

ROUNDS = 5
SECONDS = 4.0
QUIET_SECONDS = 0.3
"""Seconds without growth after which the log is complete: it gathers for a tenth of a second."""

Scenario = Callable[[Target, float], Figures]


def _load(fresh: Mapping[str, Mapping[str, Any]], target: Target, seconds: float, **options: Any) -> Figures:
    """Fresh queues, and the generator from its first message to its last."""
    client = generator.connect(target)
    for name, arguments in fresh.items():
        generator.declare_fresh(client, name, **arguments)
    found = generator.run(target, label="events", seconds=seconds, warm=0, **options)
    generator.delete(client, *fresh)
    client.close()
    return found


def _one(**options: Any) -> Scenario:
    fresh = {"bench.rows.event_log_cost": {"durable": not options.get("transient", False)}}
    return partial(_load, fresh, key="bench.rows.event_log_cost", queue="bench.rows.event_log_cost", **options)


def _many(count: int, **options: Any) -> Scenario:
    fresh = {f"bench.rows.event_log_cost.{number}": {} for number in range(count)}
    options |= {"producers": count, "consumers": count, "queues": count}
    return partial(_load, fresh, key="bench.rows.event_log_cost", queue="bench.rows.event_log_cost", **options)


def _expiring() -> Scenario:
    dead_letters = {"message_ttl": 100, "dead_letter_exchange": "", "dead_letter_routing_key": "bench.dead"}
    fresh = {"bench.dead": {}, "bench.expiring": dead_letters}
    return partial(_load, fresh, key="bench.expiring", queue="bench.dead")


SCENARIOS: dict[str, Scenario] = {
    "window 1000": _one(),
    "one confirm at a time": _one(window=1),
    "20,000 a second": _one(rate=20_000),
    "16 queues, window 32": _many(16, window=32, prefetch=100),
    "transient, 16 bytes, auto-ack": _one(transient=True, size=16, no_confirm=True, no_ack=True),
    "expired, consumed as dead letters": _expiring(),
}
VARIED = _one(varied=True)
"""Each message has eight headers, and an id of its own."""
PROPERTIES = {
    "message_id, correlation_id and type recorded, beside none": ("message_id", "correlation_id", "type"),
    "message_id and a header of eight recorded, beside none": ("message_id", "headers.tenant"),
}
"""Properties that are recorded with each publish, beside a log without any."""


def events(wanted: Wanted) -> None:
    """For each scenario medians of some rounds: rate, CPU time and confirms, on and off; events, and what one costs."""
    rounds = max(1, min(ROUNDS, wanted.sized(10 * ROUNDS) // 10))
    seconds = wanted.seconds(SECONDS)
    with tempfile.TemporaryDirectory(prefix="leveret-bench-") as name:
        directory = Path(name)
        with own_broker(LEVERET_CONFIG=_config(directory / "on")) as on, own_broker() as off:
            targets = target_of(on), target_of(off)
            for scenario, run in SCENARIOS.items():
                report(scenario, **_compared(run, *targets, directory / "on", rounds, seconds))
            for number, (scenario, chosen) in enumerate(PROPERTIES.items()):
                log = directory / f"named-{number}"
                with own_broker(LEVERET_CONFIG=_config(log, chosen)) as named:
                    report(scenario, **_compared(VARIED, target_of(named), targets[0], log, rounds, seconds))


def _config(log: Path, properties: Sequence[str] = ()) -> str:
    """Write the settings of a broker with an event log in a directory; returns their path."""
    path = log.with_suffix(".toml")
    path.write_text(
        f"[events]\nenabled = true\ndirectory = '{log}'\nmessage_properties = {json.dumps(list(properties))}\n"
    )
    return str(path)


def _compared(run: Scenario, on: Target, off: Target, log: Path, rounds: int, seconds: float) -> Figures:
    """The medians of some rounds of one scenario."""
    pairs, costs, per_second, per_message = [], [], [], []
    last = _logged(log)
    for number in range(rounds):
        found = {target: run(target, seconds) for target in ((on, off) if number % 2 == 0 else (off, on))}
        before, last = last, _logged(log)
        told = (last - before) / found[on]["seconds"]
        pairs.append((found[on], found[off]))
        per_second.append(told)
        per_message.append(told / rate(found[on]))
        costs.append((cpu(found[on]) - cpu(found[off])) / per_message[-1])
    both = {key.replace("_ours", "_on").replace("_theirs", "_off"): value for key, value in medians(pairs).items()}
    return {
        "rounds": rounds,
        "events_per_s": round(statistics.median(per_second)),
        "events_per_message": median(per_message, 2),
        "us_per_event": median(costs, 2),
        **both,
    }


def _logged(directory: Path) -> int:
    """The number of the last event on disk, when everything is."""
    last, moved = 0, time.monotonic()
    while time.monotonic() - moved < QUIET_SECONDS:
        if (now := _last_event(directory)) != last:
            last, moved = now, time.monotonic()
        time.sleep(QUIET_SECONDS / 10)
    return last


def _last_event(directory: Path) -> int:
    """Return the last event of the tail, the segment that is being written, or else of the newest one."""
    found = 0
    for path in directory.iterdir():
        if name := parse_name(path.name):
            found = max(found, name.last)
            continue
        with suppress(FileNotFoundError):  # sealed meanwhile; the next look will see it
            data = path.read_bytes()
            unsealed = tail_blocks(data) if parse_tail(path.name) else blocks(data, [])
            found = max([found, *(block.first + block.events - 1 for block in unsealed)])
    return found
