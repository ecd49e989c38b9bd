"""`leveret bench`: how fast messages go through a broker here."""

from __future__ import annotations

import json
import secrets

import click

from broker.cli.jobs.amqp_options import broker_options
from broker.cli.messages.bench_run import Figures, Load, Totals, percentile, running, temporary_queue, watch
from broker.cli.target_broker import Target, json_option, targeted
from broker.cli.usage.command_groups import CommandWithExample

WINDOWS = click.IntRange(1, 100_000)


@click.command(cls=CommandWithExample, example="--seconds 5 --size 100")
@targeted
@broker_options
@click.option("--seconds", type=click.FloatRange(0.1), default=10.0, show_default=True, help="Duration in seconds.")
@click.option("--size", type=click.IntRange(0, 128 << 20), default=1024, show_default=True, help="Bytes of a body.")
@click.option("--publishers", type=click.IntRange(1, 100), default=1, show_default=True)
@click.option("--consumers", type=click.IntRange(0, 100), default=1, show_default=True)
@click.option("--window", type=WINDOWS, default=1000, show_default=True, help="Unconfirmed messages of a publisher.")
@click.option("--transient", is_flag=True, help="Messages that a restart may discard.")
@click.option("--queue-type", type=click.Choice(["classic", "quorum"]), default="classic", show_default=True)
@json_option
def bench(
    target: Target,
    broker: dict[str, str],
    seconds: float,
    size: int,
    publishers: int,
    consumers: int,
    window: int,
    transient: bool,
    queue_type: str,
    as_json: bool,
) -> None:
    """Publish with confirms and consume with acknowledgements, through a durable queue of its own; print the rates.

    The queue is deleted at the end. This client takes nearly as much CPU time as the broker, and may limit the rate.
    """
    load = Load(publishers, consumers, size, window, not transient, queue_type)
    queue = f"leveret-bench-{secrets.token_hex(4)}"
    with temporary_queue(broker, queue, queue_type), running(broker, queue, load) as figures:
        totals = watch(figures, seconds, _silent if as_json else _show_second)
    measured = _measured(totals, figures)
    click.echo(json.dumps(measured) if as_json else _sentence(measured))


def _silent(number: int, published: int, consumed: int) -> None:
    """Only the whole is shown."""


def _show_second(number: int, published: int, consumed: int) -> None:
    click.echo(f"{number:4} s  published {published:9,}/s  consumed {consumed:9,}/s")


def _measured(totals: Totals, figures: Figures) -> dict[str, float]:
    waits = sorted(figures.confirm_seconds)
    return {
        "seconds": round(totals.seconds, 1),
        "published_per_second": round(totals.published / totals.seconds),
        "consumed_per_second": round(totals.consumed / totals.seconds),
        "confirm_milliseconds_median": round(percentile(waits, 0.5) * 1000, 2),
        "confirm_milliseconds_p99": round(percentile(waits, 0.99) * 1000, 2),
    }


def _sentence(measured: dict[str, float]) -> str:
    rates = f"published {measured['published_per_second']:,}/s, consumed {measured['consumed_per_second']:,}/s"
    median, most = measured["confirm_milliseconds_median"], measured["confirm_milliseconds_p99"]
    return f"{rates}; confirms after {median} ms (median), 99 % within {most} ms"
