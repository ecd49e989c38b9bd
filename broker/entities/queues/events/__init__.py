"""What happens in queues, as records for the event log."""
