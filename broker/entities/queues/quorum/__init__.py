"""Quorum queues on one machine: the queue, and its roles."""
