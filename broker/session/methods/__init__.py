"""What each AMQP method does, one file per class."""
