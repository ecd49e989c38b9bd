"""Killing a broker under real clients, again and again, and holding what it comes back with against their ledgers."""
