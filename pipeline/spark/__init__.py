"""Spark sessions, Java, and file systems."""
