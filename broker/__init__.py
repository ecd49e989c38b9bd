"""Leveret: a durable AMQP 0-9-1 broker for one machine."""

__version__ = "0.1.0"
