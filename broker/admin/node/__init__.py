"""What is of the broker as a whole: its process, its connections."""
