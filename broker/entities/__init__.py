"""What exists and where messages go: exchanges, queues, consumers, vhosts. Synchronous."""
