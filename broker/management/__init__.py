"""The management API: RabbitMQ's HTTP API, an ASGI application that is loaded once AMQP clients are served."""
