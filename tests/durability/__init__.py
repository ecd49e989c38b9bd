"""What must be there after crashes, kills, restarts and failures of the disk."""
