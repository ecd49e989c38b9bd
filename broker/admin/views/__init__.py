"""Columns of each kind of thing, defined once for the HTTP API, the command line and the page."""
