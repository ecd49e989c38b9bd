"""Shovels and the client that they are made of."""
