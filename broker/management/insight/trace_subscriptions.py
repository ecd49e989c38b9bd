"""Clients that trace live: a virtual host is traced while at least one of them listens."""

from __future__ import annotations

from collections import Counter

from broker.entities.vhosts.vhost import VHost
from broker.management.responses import Problem
from broker.session.channel import firehose

LISTENERS_MAX = 8


class TraceSubscriptions:
    """Which virtual hosts are traced for clients that listen, and how many those are."""

    def __init__(self) -> None:
        self._of: Counter[VHost] = Counter()
        self._started: set[VHost] = set()

    def join(self, vhost: VHost) -> None:
        """A client begins to listen. Raises Problem 503 when there are too many."""
        if self._of.total() >= LISTENERS_MAX:
            raise Problem(503, "busy", f"{LISTENERS_MAX} clients trace already")
        self._of[vhost] += 1
        if not vhost.traced:
            self._started.add(vhost)
            firehose.start(vhost)

    def leave(self, vhost: VHost) -> None:
        """It has ended. With the last one tracing ends, unless somebody else has switched it on."""
        self._of[vhost] -= 1
        if self._of[vhost] > 0:
            return
        del self._of[vhost]
        if vhost in self._started:
            self._started.remove(vhost)
            firehose.stop(vhost)
