"""A user's client of a Spark Connect server, at the address that is its argument; job.json says where the rest is."""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

said = json.loads(Path("job.json").read_text(encoding="utf-8"))
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
table = spark.read.format("amqp").options(**said["broker"], queue="kept").load()
found = [table.select("body").distinct().count()]
log = spark.readStream.format("amqp").options(**said["broker"], queue="log", startingOffsets="earliest").load()
places = {"path": said["connect_rows"], "checkpointLocation": said["connect_checkpoint"]}
log.writeStream.format("parquet").options(**places).trigger(availableNow=True).start().awaitTermination()
rows = spark.read.parquet(said["connect_rows"])
found.append(rows.select("offset").distinct().count())
copied = rows.selectExpr("body", "'copied' as routing_key")
copied.write.format("amqp").options(**said["broker"]).mode("append").save()
print(json.dumps(found))
