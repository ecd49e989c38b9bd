"""Shipping on real files, and what is restored from it."""
