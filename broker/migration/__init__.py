"""Migration of a whole broker, to or from another: definitions, then the messages of its queues."""
