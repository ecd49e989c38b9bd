"""How many files this process may have open."""

from __future__ import annotations

import resource


def allow_open_files() -> None:
    """As many open files as the system lets this process have."""
    highest = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest, highest))
