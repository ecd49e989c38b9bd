"""Shovels of a running broker."""
