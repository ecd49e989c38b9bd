"""Mistakes in what starts and commands make of a directory on which no broker runs."""
