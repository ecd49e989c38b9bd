"""Subscriptions of live tracing: a virtual host is traced while it has at least one."""

from __future__ import annotations

from collections import Counter

from broker.entities.vhosts.vhost import VHost
from broker.management.responses import Problem
from broker.session.channel import firehose

LISTENERS_MAX = 8


class TraceSubscriptions:
    """The count of subscriptions of each virtual host, LISTENERS_MAX in all."""

    def __init__(self) -> None:
        self._of: Counter[VHost] = Counter()
        self._started: set[VHost] = set()

    def join(self, vhost: VHost) -> None:
        """Add a subscription, and start tracing if it is off. Raises Problem 503 if there are LISTENERS_MAX already."""
        if self._of.total() >= LISTENERS_MAX:
            raise Problem(503, "busy", f"{LISTENERS_MAX} clients trace already")
        self._of[vhost] += 1
        if not vhost.traced:
            self._started.add(vhost)
            firehose.start(vhost)

    def leave(self, vhost: VHost) -> None:
        """Remove a subscription. The last one ends tracing, unless tracing was already on when the first one came."""
        self._of[vhost] -= 1
        if self._of[vhost] > 0:
            return
        del self._of[vhost]
        if vhost in self._started:
            self._started.remove(vhost)
            firehose.stop(vhost)
