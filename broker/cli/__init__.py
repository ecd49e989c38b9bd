"""The command line: `leveret COMMAND`, one file per group of commands."""
