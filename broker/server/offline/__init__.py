"""Commands on the stores of a broker that does not run."""
