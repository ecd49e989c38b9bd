"""Messages from the command line: published, read, watched and counted, as a client of any AMQP 0-9-1 broker."""
