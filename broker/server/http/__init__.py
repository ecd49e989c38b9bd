"""HTTP: the server, who may read, and what is served."""
