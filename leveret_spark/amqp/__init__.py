"""AMQP as a client speaks it: reading, holding and publishing messages."""
