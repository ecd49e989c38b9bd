"""A message and what the broker writes into its headers."""
