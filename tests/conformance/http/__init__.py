"""Answers of RabbitMQ's management API, in tables of requests.

LEVERET_REFERENCE_HTTP=host:port, with LEVERET_REFERENCE, has the same tables hold a real RabbitMQ to them.
"""
