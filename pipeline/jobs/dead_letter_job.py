"""The job `dead-letters`: messages of a dead-letter queue by reason, without consuming them; rates by an event log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from pyspark.sql import Row, SparkSession

from leveret_spark.option_errors import AmqpError
from leveret_spark.options import broker_of
from leveret_spark.queues.batch_intake import ready_messages
from leveret_spark.streams.stream_ends import is_stream
from pipeline.dead_letters import dead_letter_rates, dead_letters
from pipeline.event_parts import Part
from pipeline.file_target import Target
from pipeline.jobs.job_results import Run
from pipeline.packed_events import micros

JOB = "dead_letters"
LOOK_BYTES = 1 << 30
FAILURES = (AmqpError, ValueError)
"""Expected errors, beside OSError and those of Spark: the message is shown, not a traceback."""


class DeadLetters(NamedTuple):
    """Result: messages that were ready, messages looked at, and their groups, the largest first."""

    ready: int
    looked: int
    groups: list[Row]


def run_dead_letters(
    spark: SparkSession,
    target: Target,
    options: Mapping[str, str],
    queue: str,
    look: int,
    events: Sequence[Part] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> DeadLetters:
    """Group up to `look` messages: writes the table dead_letters, and dead_letter_rates if there are events.

    `options` name the broker as those of the source `amqp` do. Raises AmqpError, OptionError, and what Spark raises.
    """
    run = Run(target, JOB)
    ready = ready_messages(broker_of(options), queue)
    source = spark.read.format("amqp").options(**options, queue=queue)
    if is_stream(broker_of(options), queue):
        messages = source.load().limit(look).persist()
    else:
        limits = {"maxMessagesPerBatch": look, "prefetch": look, "maxBytesPerBatch": LOOK_BYTES}
        messages = source.options(**limits).load().persist()
    looked = messages.count()
    found = dead_letters(messages).persist()
    groups = found.collect()
    run.write("dead_letters", found.toArrow())
    for each in (found, messages):
        each.unpersist()
    if events is not None:
        run.write("dead_letter_rates", dead_letter_rates(events, micros(since), micros(until)))
    run.publish({"queue": queue, "vhost": broker_of(options).vhost, "ready": ready, "looked": looked})
    return DeadLetters(ready, looked, sorted(groups, key=lambda row: -row.messages))
