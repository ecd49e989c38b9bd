"""What an operator can ask of a broker, one file per subject."""
