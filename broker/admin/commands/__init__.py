"""Commands of an operator, one file per subject: each with its arguments, its handler and its log line."""
