"""The audit judged by Spark's executors: the rules of `pipeline.audit`, applied to shares of a log."""
