"""Streams as Spark sources: offsets, ranges of them, and what tasks read."""
