"""Servers that pieces are shipped to: real ones, each started for a test."""
