"""What is fast, and how it was measured."""
