"""How Spark 4 finds the source `leveret-events` by itself; see `pyspark_amqp`."""

from leveret_spark.events.events_source import LeveretEventsDataSource as DefaultSource

__all__ = ["DefaultSource"]
