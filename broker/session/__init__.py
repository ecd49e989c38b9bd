"""One client's conversation: handshake, connection, channels, handlers. Synchronous: bytes in, bytes out."""
