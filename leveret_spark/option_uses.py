"""The uses of the source `amqp`, and the options that each of them takes: any other would be without effect."""

from __future__ import annotations

from collections.abc import Iterable

from leveret_spark.option_errors import OptionError
from leveret_spark.options import BROKER, PATIENCE, TLS, WRITING, Given

QUEUE_TABLE, QUEUE_QUERY = "tables of queues", "streaming queries of queues"
STREAM_TABLE, STREAM_QUERY = "tables of streams", "streaming queries of streams"
SINK = "sinks"

QUEUES = (QUEUE_TABLE, QUEUE_QUERY)
STREAMS = (STREAM_TABLE, STREAM_QUERY)
TABLES = (QUEUE_TABLE, STREAM_TABLE)
QUERIES = (QUEUE_QUERY, STREAM_QUERY)
SOURCES = (*QUEUES, *STREAMS)

TOGETHER = {
    frozenset(SOURCES): "sources",
    frozenset(QUEUES): "queues",
    frozenset(STREAMS): "streams (x-queue-type: stream)",
    frozenset(TABLES): "tables",
    frozenset(QUERIES): "streaming queries",
}
"""Words for several uses."""


USES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys((*BROKER, *TLS, *PATIENCE), (*SOURCES, SINK)),
    **dict.fromkeys(("queue", "queues", "prefetch", "partitions"), SOURCES),
    **dict.fromkeys(("headersAs", "includeHeaders", "includeBrokerTimestamp"), SOURCES),
    **dict.fromkeys(("connections", "idleSeconds"), QUEUES),
    **dict.fromkeys(("maxMessagesPerBatch", "maxBytesPerBatch", "batchWaitMilliseconds"), (*QUEUES, STREAM_QUERY)),
    "ack": (QUEUE_TABLE,),
    **dict.fromkeys(("subscribePattern", "assign", "failOnDataLoss", "maxRecordsPerPartition"), STREAMS),
    **dict.fromkeys(("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp"), STREAMS),
    **dict.fromkeys(("startingOffsetsByTimestampStrategy", "streamFilter", "streamFilterUnfiltered"), STREAMS),
    **dict.fromkeys(("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"), (STREAM_TABLE,)),
    **dict.fromkeys(("minOffsetsPerTrigger", "maxTriggerDelay", "groupId"), (STREAM_QUERY,)),
    **dict.fromkeys(("superStream", "managementUrl"), (*STREAMS, SINK)),
    **dict.fromkeys(WRITING, (SINK,)),
}
"""By the names of options, without other names for them."""

PER_TRIGGER = ("maxOffsetsPerTrigger", "maxBytesPerTrigger")
"""Names of limits that a table, which has no trigger, does not take."""


def check_use(given: Given, use: str, subject: str = "") -> None:
    """Raise OptionError for an option that would be without effect; `subject` says what is read or written."""
    for name, uses in USES.items():
        if use not in uses and given.has(name):
            raise OptionError(f"option {given.said(name)} is for {_together(uses)}, not for {use}{subject}")
    if use in TABLES and (idle := next((name for name in PER_TRIGGER if given.was_said(name)), None)):
        raise OptionError(f"option {idle} is for streaming queries, not for {use}{subject}")


def _together(uses: Iterable[str]) -> str:
    wanted = set(uses)
    words = []
    for several, word in TOGETHER.items():
        if several <= wanted:
            words.append(word)
            wanted -= several
    return " and ".join([*words, *sorted(wanted)])
