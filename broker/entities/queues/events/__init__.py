"""Event log records of what happens to messages in queues."""
