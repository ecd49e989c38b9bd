"""What clients leave in a broker, and find in it after a restart: see `tests/durability/restart/boots.py`."""
