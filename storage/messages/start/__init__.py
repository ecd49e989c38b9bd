"""The start of a message store: the last boot's journal is applied, records are repaired, a boot begins."""
