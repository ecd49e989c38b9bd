"""Queues of every type: ready messages, consumers, limits, and their share of the message store."""
