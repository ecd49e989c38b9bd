"""Exchanges, queues, consumers, virtual hosts, and the messages in them. Synchronous, no I/O."""
