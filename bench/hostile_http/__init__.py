"""Cost of hostile HTTP clients for others: bodies, query strings, answers that nobody reads."""
