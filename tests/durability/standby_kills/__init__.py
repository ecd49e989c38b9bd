"""Promotions of standbys, while the broker, the place and the standby are killed or fail."""
