"""Hours of mixed load."""
