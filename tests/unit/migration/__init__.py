"""Moving a whole broker to or from another."""
