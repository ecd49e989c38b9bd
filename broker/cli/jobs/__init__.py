"""Commands of the data pipeline, which need the extra `leveret[pipeline]`."""
