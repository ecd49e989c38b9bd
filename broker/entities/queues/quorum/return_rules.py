"""Rules of returned messages in a series of RabbitMQ: their delivery limit, their delay, and the headers that count."""

from __future__ import annotations

import math
from typing import NamedTuple

from broker.entities.arguments.delayed_retry import DelayedRetry, delayed_retry
from broker.entities.arguments.personality import Personality
from broker.entities.arguments.queue_arguments import QueueArguments
from broker.entities.messages.message import QueuedMessage
from broker.wire.field_tables import Field, Table


class ReturnRules(NamedTuple):
    """The rules for a queue with these arguments in force."""

    personality: Personality
    arguments: QueueArguments

    @property
    def limit(self) -> float | None:
        """Limit on a message's returns; None: no limit."""
        said = self.arguments.delivery_limit
        if said is None:
            return self.personality.delivery_limit
        return None if said == math.inf else said

    @property
    def limit_shown(self) -> bool:
        """The API shows the limit, as in series that have one by default."""
        return self.personality.delivery_limit is not None

    @property
    def retry(self) -> DelayedRetry | None:
        """The delay of returned messages; None: none."""
        return delayed_retry(self.arguments) if self.personality.delayed_retries else None

    @property
    def failures_apart(self) -> bool:
        """Returns by basic.nack and basic.recover are told from failures."""
        return self.personality.failures_apart

    @property
    def to_the_end(self) -> bool:
        """Messages that their consumer returns go to the end, or they could block all others for ever."""
        return self.limit is None and self.personality.nacks_count

    def counted(self, entry: QueuedMessage) -> int:
        """Return how many deliveries of a message count for the limit; all of them ended with a return."""
        return entry.deliveries if self.personality.nacks_count else entry.deliveries - entry.uncounted

    def exhausted(self, entry: QueuedMessage) -> bool:
        """Return whether a message was returned more often than the limit."""
        limit = self.limit
        return limit is not None and self.counted(entry) > limit

    def shown(self, deliveries: int, uncounted: int) -> Table:
        """Return the headers with the number of earlier deliveries here; `uncounted` is that of `QuorumEntry`.

        RabbitMQ 4 leaves out a zero. 4.3 has two headers: all deliveries here, and failures, anywhere. For a dead
        letter that was not delivered here yet, both are the failures.
        """
        if self.personality.zero_counts:
            return {"x-delivery-count": Field("l", deliveries)}
        failures = deliveries - uncounted
        counts = {"x-delivery-count": deliveries or failures}
        if self.personality.acquired_counts:
            counts = {"x-acquired-count": deliveries or failures, "x-delivery-count": failures}
        return {name: Field("l", count) for name, count in counts.items() if count}
