"""What lies in a stopped broker's store."""
