"""What hostile clients of the HTTP ports cost others: bodies, query strings, answers that nobody reads."""
