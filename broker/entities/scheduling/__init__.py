"""Time and turns: what happens when, and how much of it at once."""
