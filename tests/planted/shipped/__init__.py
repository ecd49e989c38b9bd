"""Mistakes in what is shipped to a second place."""
