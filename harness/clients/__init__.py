"""Clients: AMQP over a socket or without one, and short ways to say common things."""
