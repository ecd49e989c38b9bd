"""HTTP: the server, access, and what is served."""
