"""Logins: handshake, SASL, passwords, certificates, throttling of wrong ones."""
