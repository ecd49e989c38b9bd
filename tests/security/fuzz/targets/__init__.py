"""Everything that reads what others wrote, one target each."""
