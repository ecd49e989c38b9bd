"""Commits of messages: `commit_policy` decides who writes a batch and when, the other modules do it."""
