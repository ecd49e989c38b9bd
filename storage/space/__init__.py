"""Disk space of the message store: free pages of LMDB's file, and reserved space for a full disk."""
