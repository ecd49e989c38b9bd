"""AMQP 0-9-1 for Apache Spark: queues as sources, exchanges as sinks.

Register the data source once for each session, then use it by its name:

    from leveret_spark import AmqpDataSource

    spark.dataSource.register(AmqpDataSource)
    messages = spark.readStream.format("amqp").option("queue", "orders").load()

It serves Leveret and RabbitMQ alike; docs/spark.md and docs/spark-streams.md have the options, the columns and what
is guaranteed. `event_log` reads Leveret's event log. The package stands alone: it imports nothing of the broker, and
must be installed on every node of a cluster.
"""

from typing import TYPE_CHECKING, Any

from leveret_spark.option_errors import AmqpError, HttpError, OptionError

if TYPE_CHECKING:
    from leveret_spark.data_source import AmqpDataSource
    from leveret_spark.events.events_source import LeveretEventsDataSource

__all__ = ["AmqpDataSource", "AmqpError", "HttpError", "LeveretEventsDataSource", "OptionError"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import Spark when it is wanted: what talks to the broker does not need it."""
    if name == "AmqpDataSource":
        from leveret_spark.data_source import AmqpDataSource

        return AmqpDataSource
    if name == "LeveretEventsDataSource":
        from leveret_spark.events.events_source import LeveretEventsDataSource

        return LeveretEventsDataSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
