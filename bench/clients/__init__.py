"""Programs of client libraries with their defaults, and how each is run."""
