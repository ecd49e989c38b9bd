"""The journal in front of LMDB, a write-ahead log: one write makes a batch durable, LMDB follows later."""
