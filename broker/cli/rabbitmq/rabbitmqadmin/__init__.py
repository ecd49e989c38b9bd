"""`leveret rabbitmqadmin`: RabbitMQ's command line for its management API, as of its tool in Python."""
