"""What is said about a start: that the broker is ready, and what it has begun with."""
