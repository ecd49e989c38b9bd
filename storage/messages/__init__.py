"""Messages in LMDB: segments, small records, reading, reclaiming, checking."""
