"""The audit: verdicts on every message, by the event log."""
