"""Messages as operators see them: in JSON, looked at in their queue."""
