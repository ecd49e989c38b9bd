"""One client's session: handshake, connection, channels, handlers of methods. Synchronous: bytes in, bytes out."""
