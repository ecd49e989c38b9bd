"""Kinds of definitions: their entries in definitions files, their effects in memory, their events."""
