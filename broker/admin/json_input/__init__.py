"""JSON that comes from outside: which of it is taken, and how it is read in short steps."""
