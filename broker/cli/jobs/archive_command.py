"""`leveret archive`: a queue's messages into Parquet files."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import click

from broker.admin.protocol import AdministrationError
from broker.cli.jobs.amqp_options import broker_options
from broker.cli.jobs.pipeline_extra import pipeline_module
from broker.cli.jobs.progress import progress
from broker.cli.table_output import counted
from broker.cli.target_broker import Target, targeted
from broker.cli.usage.command_groups import CommandWithExample

ENDING = (signal.SIGINT, signal.SIGTERM)


@click.command(cls=CommandWithExample, example="--queue orders --out orders-parquet")
@targeted
@broker_options
@click.option("--queue", required=True, metavar="NAME", help="The queue to archive.")
@click.option("--out", required=True, metavar="DIR|URI", help="Directory for the files, s3://..., hdfs://...")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Number of messages; default: all that are ready.")
@click.option("--until-empty", is_flag=True, help="Stop when the queue is empty.")
@click.option("--follow", is_flag=True, help="Do not stop until interrupted.")
@click.option("--keep", is_flag=True, help="Return all messages to the queue, marked as redelivered.")
@click.option("--file-messages", type=click.IntRange(1, 1_000_000), default=10_000, show_default=True, metavar="N")
@click.option("--file-bytes", type=click.IntRange(1, 1 << 30), default=64 << 20, show_default=True, metavar="BYTES")
@click.option("--file-seconds", type=click.FloatRange(0.1), default=60.0, show_default=True, metavar="SECONDS")
def archive(
    target: Target,
    broker: dict[str, str],
    queue: str,
    out: str,
    limit: int | None,
    until_empty: bool,
    follow: bool,
    keep: bool,
    file_messages: int,
    file_bytes: int,
    file_seconds: float,
) -> None:
    """Move a queue's messages into Parquet files. A file ends by messages or bytes, with --follow also by seconds.

    A message is acknowledged when its file is on disk and listed in a manifest. If this process or the broker is
    killed, no message is lost; some may be in two files. An interrupt (^C) ends it in order. It works with any AMQP
    0-9-1 broker.
    """
    _check(limit=limit, until_empty=until_empty, follow=follow, keep=keep)
    archiving = pipeline_module("archive")
    limits = archiving.FileLimits(file_messages, file_bytes, file_seconds)
    try:
        ready = archiving.ready(broker, queue)  # before a directory is made for a queue that is not there
        run = archiving.begin(broker, queue, out, limits, keep=keep)
        wanted = archiving.Wanted(None if until_empty or follow else limit or ready, follow)
        with _interrupts() as is_stopped, progress("messages", wanted.messages or ready, counts=True) as tell:
            done = run.run(wanted, is_stopped=is_stopped, on_file=lambda archived: tell(archived.messages))
            ended = not is_stopped()
    except archiving.FAILURES as error:
        raise AdministrationError("failed", str(error)) from error
    click.echo(
        f"{counted(done.messages, 'message')}, {counted(done.bytes, 'byte')}, in {counted(done.files, 'file')} in {out}"
    )
    if ended and not follow and done.messages < min(ready, limit or ready):
        click.echo(f"{ready:,} were ready, and no more came: others have them, or it is a stream", err=True)


def _check(*, limit: int | None, until_empty: bool, follow: bool, keep: bool) -> None:
    if (limit is not None) + until_empty + follow > 1:
        raise click.UsageError("--limit, --until-empty and --follow exclude each other")
    if keep and (until_empty or follow):
        raise click.UsageError("--keep shows what is ready: it goes with --limit at most")


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns True once a signal asked for the end. A second signal ends the process at once."""
    asked = threading.Event()
    before = {number: signal.getsignal(number) for number in ENDING}

    def end(number: int, _: FrameType | None) -> None:
        asked.set()
        signal.signal(number, before[signal.Signals(number)])

    for number in ENDING:
        signal.signal(number, end)
    try:
        yield asked.is_set
    finally:
        for number in ENDING:
            signal.signal(number, before[number])
