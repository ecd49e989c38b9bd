"""report.html: what the last runs of all jobs in a place have found, for people, in one file that needs no other."""
