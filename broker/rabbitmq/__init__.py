"""Compatibility with programs of RabbitMQ: its command lines, rabbitmqadmin, rabbitmq.conf, its container image."""
