"""Faults that tests request: the table of them, those requested, and the parts of a server that inject them."""
