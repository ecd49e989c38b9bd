"""The whole broker: its virtual hosts, users, limits and parameters."""
