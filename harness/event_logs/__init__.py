"""Event logs that no broker has written, and an audit of them in plain Python."""
