"""What an operator can do: each command with its arguments, what it does and its log line; one file per subject."""
