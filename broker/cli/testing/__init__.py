"""What tests do with a broker on the command line."""
