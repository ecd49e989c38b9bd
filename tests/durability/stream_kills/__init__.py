"""Kills while Spark writes a stream into files: each message is there exactly once."""
