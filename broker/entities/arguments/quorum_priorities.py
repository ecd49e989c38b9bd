"""Priorities of quorum queues by series of RabbitMQ."""

from __future__ import annotations

from enum import Enum

DEFAULT, HIGH, HIGHEST = 4, 9, 31
"""The level of messages without a priority, that of all high ones in 4.2 (an upgrade gives it to these), the highest
priority in 4.3."""


class QuorumPriorities(Enum):
    """Orders of a quorum queue by the priorities of its messages."""

    NONE = 0
    """Publish order."""
    TWO = 1
    """Two high ones, above the default, are delivered before one of the others."""
    STRICT = 2
    """Levels, one for each priority: a higher one is delivered first."""

    def level(self, priority: int | None) -> int:
        """Return the level of a message with a priority; None: it has none."""
        if self is QuorumPriorities.NONE or priority is None:
            return DEFAULT
        if self is QuorumPriorities.TWO:
            return HIGH if priority > DEFAULT else DEFAULT
        return min(priority, HIGHEST)
