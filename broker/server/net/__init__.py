"""Sockets: listeners, transports, TLS, heartbeats."""
