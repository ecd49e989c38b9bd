"""Shovels: messages of one queue or exchange, moved on to another broker for as long as the shovel is there."""
