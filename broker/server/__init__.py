"""The only package that waits: listeners, transport, committer, recovery, shutdown."""
