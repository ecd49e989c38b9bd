"""The room that the message store takes on the disk."""
