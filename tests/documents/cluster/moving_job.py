"""A user's job: moves a queue into Parquet files, and its rows into another queue. job.json says where they are."""

import json
from pathlib import Path

from pyspark.sql import SparkSession

said = json.loads(Path("job.json").read_text(encoding="utf-8"))
spark = SparkSession.builder.getOrCreate()
orders = spark.readStream.format("amqp").options(**said["broker"], queue="orders").load()
places = {"path": said["rows"], "checkpointLocation": said["checkpoint"]}
orders.writeStream.format("parquet").options(**places).trigger(availableNow=True).start().awaitTermination()
rows = spark.read.parquet(said["rows"])
moved = rows.selectExpr("body", "'moved' as routing_key")
moved.write.format("amqp").options(**said["broker"]).mode("append").save()
print(rows.select("body").distinct().count())
