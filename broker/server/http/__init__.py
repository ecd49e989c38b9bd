"""HTTP: server, connections, ASGI, and the applications that are served."""
