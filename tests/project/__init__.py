"""The project itself: layers, sizes, documents, settings, the command line."""
