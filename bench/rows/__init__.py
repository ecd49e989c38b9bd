"""Rows of measurements, one file for each."""
