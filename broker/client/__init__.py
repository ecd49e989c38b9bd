"""An AMQP client: URIs, a connection without I/O, the same on a trio stream, and moving messages."""
