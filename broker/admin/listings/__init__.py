"""The columns of every kind of thing that can be listed, by RabbitMQ's names."""
