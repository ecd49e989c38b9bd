"""Every prefix of shipped pieces is a crash state: what comes back from each is held against what was promised."""
