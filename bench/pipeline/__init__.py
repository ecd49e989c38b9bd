"""The event log's export and audit, and Spark."""
