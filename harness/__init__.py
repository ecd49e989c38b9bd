"""Shared parts of tests and measurements: brokers to work on, clients that say exactly what they are told, attacks."""
