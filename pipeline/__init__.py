"""Data pipelines over a broker, with and without Spark, for the extra `leveret[pipeline]` (docs/pipeline.md).

`stopped_store` reads the store of a stopped broker, and needs nothing but the broker's packages.
"""
