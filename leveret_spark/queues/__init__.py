"""Queues as Spark sources, rows as messages."""
