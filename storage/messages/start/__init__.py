"""The start of a message store: the journal of the boot before is taken over, records are repaired, a boot begins."""
