"""Arguments and policies of queues and exchanges."""
