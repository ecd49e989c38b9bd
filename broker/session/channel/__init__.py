"""One channel: its state, its delivery tags, its confirms, its permissions."""
