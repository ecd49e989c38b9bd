"""A broker that is shipped to a second place, and what comes back from there."""
