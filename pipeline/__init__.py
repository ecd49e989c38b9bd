"""Data pipelines over a broker, with and without Spark, for the extra `leveret[pipeline]` (docs/pipeline.md).

Also what is in the store of a stopped broker, which needs nothing beside the broker.
"""
