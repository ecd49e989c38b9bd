"""Parts of the page beyond RabbitMQ's API: crash preview, held publishers, commits, live tracing, reading a stream."""
