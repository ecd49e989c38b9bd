"""The broker's event log as a Spark source."""
