"""How Spark 4 finds the source `amqp` by itself: it looks for modules called `pyspark_...` when a name is unknown.

In the wheel of these sources this module is beside the package, as Spark looks at the top level only.
"""

from leveret_spark.data_source import AmqpDataSource as DefaultSource

__all__ = ["DefaultSource"]
