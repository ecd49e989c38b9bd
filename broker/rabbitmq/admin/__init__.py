"""`rabbitmqadmin`: the command line for the management API, as RabbitMQ's tool in Python."""
