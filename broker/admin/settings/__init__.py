"""What holds for what exists: policies, limits, parameters."""
