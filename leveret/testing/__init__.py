"""What tests need of a broker beside its protocol."""
