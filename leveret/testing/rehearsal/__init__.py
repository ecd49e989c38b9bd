"""Runs of one command or test suite with several personalities of the broker, and how they differ."""
