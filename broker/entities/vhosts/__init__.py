"""Virtual hosts: names, declarations, bindings, policies, users and their limits."""
