"""Messages about a start: readiness, for systemd and others, and the log line with version and settings."""
