"""Streams: the queue, its log, and what of it is kept."""
