"""The journal in front of LMDB: a batch is on disk with one write, and LMDB follows."""
