"""Delivery counts of a message of a quorum queue, in the 32 bits that a record has for them.

A plain number counts deliveries. With the highest bit set it is two numbers: RabbitMQ 4.3 does not count deliveries for
the delivery limit that were returned by basic.nack or basic.recover, and shows both numbers.
"""

from __future__ import annotations

from typing import NamedTuple

_BOTH = 1 << 31
_COUNTED_MAX, _UNCOUNTED_MAX = (1 << 16) - 1, (1 << 15) - 1
"""Larger numbers are stored as these: the limit is far below them, and the others are for people to read."""


class DeliveryCounts(NamedTuple):
    """Deliveries that count for the delivery limit, and those that do not."""

    counted: int
    uncounted: int = 0

    @property
    def all(self) -> int:
        """All deliveries."""
        return self.counted + self.uncounted

    def packed(self) -> int:
        """Return the number that is stored."""
        if not self.uncounted:
            return self.counted
        return _BOTH | min(self.uncounted, _UNCOUNTED_MAX) << 16 | min(self.counted, _COUNTED_MAX)


def unpacked(stored: int) -> DeliveryCounts:
    """Return the counts of a stored number."""
    if not stored & _BOTH:
        return DeliveryCounts(stored)
    return DeliveryCounts(stored & _COUNTED_MAX, stored >> 16 & _UNCOUNTED_MAX)
