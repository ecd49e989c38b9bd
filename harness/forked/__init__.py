"""Brokers and commands with a planted mistake, or a library before the system's, forked from a loaded process."""
