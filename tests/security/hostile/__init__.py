"""Clients that mean harm or are broken, and what they must not cost anybody else."""
