"""Jobs over the event log and queues, and their results."""
