"""A disk that hangs: `disk_watch` notices it in a thread of its own, `stalled_answers` says so to callers."""
