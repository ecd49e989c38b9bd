"""Targets: the second places to which pieces are shipped."""
