"""`rabbitmqadmin` version 2: the command line for the management API that comes beside RabbitMQ 4."""
