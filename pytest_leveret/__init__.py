"""Leveret for pytest: fixtures with a broker for tests. The plugin is `pytest_leveret.plugin`."""
