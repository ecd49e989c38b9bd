"""A thousand queues with a producer and a consumer each, beside one queue with the same total rate."""

from __future__ import annotations

from bench.load import generator
from bench.load.generator import Figures
from bench.load.measured_broker import Target, Wanted, chosen, report
from harness.process_figures import allow_open_files

QUEUES = 1000
RATE = 2000
SECONDS = 6.0


def many_queues(wanted: Wanted) -> None:
    """Confirm latencies of 2,000 messages a second: on one queue, then spread evenly over a thousand."""
    allow_open_files()
    queues = wanted.sized(QUEUES)
    with chosen(wanted) as target:
        one = _paced(target, 1, wanted)
        report("1 queue, paced", **one)
        many = _paced(target, queues, wanted)
        times = round(many["confirm_ms"]["p99"] / max(0.001, one["confirm_ms"]["p99"]), 2)
        report(f"{queues:,} queues, paced", p99_of_one_queue=times, **many)


def _paced(target: Target, queues: int, wanted: Wanted) -> Figures:
    client = generator.connect(target)
    names = (
        [f"bench.rows.many_queues.{number}" for number in range(queues)] if queues > 1 else ["bench.rows.many_queues"]
    )
    for name in names:
        generator.declare_fresh(client, name)
    found = generator.run(
        target,
        label="many queues",
        key="bench.rows.many_queues",
        queue="bench.rows.many_queues",
        queues=queues,
        producers=queues,
        consumers=queues,
        rate=RATE,
        warm=wanted.seconds(2.0),
        seconds=wanted.seconds(SECONDS),
    )
    generator.delete(client, *names)
    client.close()
    return found
