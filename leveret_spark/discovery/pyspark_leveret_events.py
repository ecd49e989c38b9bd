"""Registration of the source `leveret-events` in Spark 4; see `pyspark_amqp`."""

from leveret_spark.events.events_source import LeveretEventsDataSource as DefaultSource

__all__ = ["DefaultSource"]
