"""What programs written for RabbitMQ expect: its command lines, rabbitmqadmin, rabbitmq.conf, its container image."""
