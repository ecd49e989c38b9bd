"""Shovels: they move messages of a queue or exchange to another broker, until they are removed or have finished."""
