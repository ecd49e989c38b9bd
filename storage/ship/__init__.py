"""Shipping: the store and its records, copied to a second place in sealed pieces while the broker runs."""
