"""Commands on the files of a data directory: backups, checks, what a stopped broker holds."""
