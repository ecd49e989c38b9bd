"""Registration of the source `amqp` in Spark 4, which imports modules named `pyspark_...` for an unknown source.

The wheel has this module beside the package, as Spark looks at the top level only.
"""

from leveret_spark.data_source import AmqpDataSource as DefaultSource

__all__ = ["DefaultSource"]
