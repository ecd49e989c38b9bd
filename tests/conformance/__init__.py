"""What RabbitMQ does on the wire, and what clients' libraries expect."""
