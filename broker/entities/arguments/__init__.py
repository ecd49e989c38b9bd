"""What arguments and policies of queues and exchanges may say."""
