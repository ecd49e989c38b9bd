"""JSON from outside: its limits, and reading it in short steps."""
