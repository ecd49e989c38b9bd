"""Virtual hosts: declarations, bindings, exclusive queues, dead-lettering, policies taking effect."""
