"""Things that clients leave in a broker, and find after a restart: see `tests/durability/restart/boots.py`."""
