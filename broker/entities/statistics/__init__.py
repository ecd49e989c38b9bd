"""What is counted of messages, and kept: plain integers."""
