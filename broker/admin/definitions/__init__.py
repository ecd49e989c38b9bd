"""Definitions files: read, checked, imported, exported."""
