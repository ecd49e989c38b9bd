"""The job `dead-letters`: a dead-letter queue looked at and left as it is, and rates from an event log."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as fn

from leveret_spark.option_errors import AmqpError
from leveret_spark.options import broker_of
from leveret_spark.queues.batch_intake import ready_messages
from pipeline.dead_letters import dead_letter_rates, dead_letters
from pipeline.jobs.job_results import Run
from pipeline.spark.file_places import Place

JOB = "dead_letters"
LOOK_BYTES = 1 << 30
FAILURES = (AmqpError, ValueError)
"""What may go wrong without anything being wrong with the program, beside OSError and what Spark raises."""


class DeadLetters(NamedTuple):
    """What was found: how many messages were ready and looked at, and the groups of them, the largest first."""

    ready: int
    looked: int
    groups: list[Row]


def run_dead_letters(
    place: Place,
    options: Mapping[str, str],
    queue: str,
    look: int,
    events: DataFrame | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> DeadLetters:
    """Look at up to `look` messages: the table dead_letters, and dead_letter_rates where there are events.

    `options` name the broker as those of the source `amqp` do. Raises AmqpError, OptionError, and what Spark raises.
    """
    run = Run(place, JOB)
    ready = ready_messages(broker_of(options), queue)
    source = place.spark.read.format("amqp").options(**options, queue=queue)
    messages = source.options(maxMessagesPerBatch=look, prefetch=look, maxBytesPerBatch=LOOK_BYTES).load().persist()
    looked = messages.count()
    groups = run.write("dead_letters", dead_letters(messages), small=True).collect()
    messages.unpersist()
    if events is not None:
        rates = dead_letter_rates(_between(events, since, until))
        run.write("dead_letter_rates", rates.orderBy("minute", "vhost", "queue"), small=True)
    run.publish({"queue": queue, "vhost": broker_of(options).vhost, "ready": ready, "looked": looked})
    return DeadLetters(ready, looked, sorted(groups, key=lambda row: -row.messages))


def _between(events: DataFrame, since: datetime | None, until: datetime | None) -> DataFrame:
    if since is not None:
        events = events.where(fn.col("ts") >= fn.lit(since))
    return events if until is None else events.where(fn.col("ts") < fn.lit(until))
