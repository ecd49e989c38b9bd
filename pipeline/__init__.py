"""Data pipelines over a broker, on Apache Spark. Needs the extra `leveret[pipeline]`; see docs/pipeline.md."""
