"""Contents that look like what the broker writes itself, and like what its readers act upon."""
