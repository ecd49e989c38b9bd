"""A whole broker moved: its definitions, then the messages of its queues, to or from another."""
