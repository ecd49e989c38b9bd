"""What became of every message, by the event log."""
