"""From messages and answers to bytes."""
