"""What is shown of each kind of thing, once for the HTTP API, the command line and the page."""
