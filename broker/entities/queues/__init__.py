"""Queues of every type: ready messages, consumers, limits, and their part of the message store."""
