"""Commands for queues, exchanges and bindings."""
