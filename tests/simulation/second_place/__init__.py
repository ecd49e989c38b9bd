"""Whole brokers, a standby and one second place in virtual time: who may confirm, and what a promotion must have."""
