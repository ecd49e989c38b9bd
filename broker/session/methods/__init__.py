"""Handlers of AMQP methods, one file per class."""
