"""Definitions in SQLite."""
