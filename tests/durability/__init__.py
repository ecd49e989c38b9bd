"""Promises kept across crashes, kills, restarts and failures of the disk."""
