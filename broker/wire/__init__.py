"""Bytes to values and back: frames, methods, tables, properties. Standard library only."""
