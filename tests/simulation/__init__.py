"""Whole brokers in virtual time: random clients, restarts, jumps of the clock and faults, held against the promises.

Everything of a run comes from its seed. See `world.py`, and `python -m tests.simulation --help`.
"""
