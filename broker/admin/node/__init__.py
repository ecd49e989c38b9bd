"""The node: its process and its memory."""
