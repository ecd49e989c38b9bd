"""The message store: message segments and small records in LMDB, written, read, deleted in steps and backed up."""
