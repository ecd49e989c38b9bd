"""Commands for tests."""
