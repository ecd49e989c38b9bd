"""What the page shows and does beyond RabbitMQ's API: what a crash would undo, live tracing, reading a stream."""
