"""Clients that mean harm, and inputs that nobody would write."""
