"""AMQP as a client speaks it: URIs, one connection without I/O, the same on a trio stream, and moving messages."""
