"""Shipping of a running broker to a second place."""
