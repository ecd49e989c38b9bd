"""Jobs over the event log and queues, and what they leave."""
