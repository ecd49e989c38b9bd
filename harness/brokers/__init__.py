"""Brokers to test and to measure: processes, servers and cores inside a test."""
