"""What became of messages as they were published: how many were confirmed, and which lack a queue that they go to."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pipeline.audit.moments import RIGHT_BEHIND, Clock, boot_of, where
from pipeline.audit.reduction import NEVER, Groups
from pipeline.audit.verdict_table import LOST, SCHEMA, VERDICTS


class Counts(NamedTuple):
    """Messages that clients published: confirmed ones; of these those that were returned, and those that reached no
    queue and were not returned.
    """

    published: int = 0
    confirmed: int = 0
    returned: int = 0
    unroutable: int = 0


class Messages:
    """One row for each message."""

    def __init__(self, node: str, messages: pa.Table, clock: Clock) -> None:
        self._node = node
        self._table = messages
        self._clock = clock
        self._groups = Groups(messages.column("msg_id").to_numpy())
        self._own = self._groups.max(self._column("own"))
        self._published = self._groups.min(self._column("published"))
        self._confirm_us = self._groups.min(self._column("confirm_us"))
        self._routes = self._groups.sum(self._column("routes"))
        self._queues = self._groups.max(self._column("queues"))

    def _column(self, name: str) -> Any:
        return self._table.column(name).to_numpy()[self._groups.order]

    def judge(self) -> tuple[Counts, pa.Table]:
        """How many there are; a row of SCHEMA, without a queue, for each that has not reached all of its queues."""
        until = np.minimum(self._groups.min(self._column("confirmed")), self._published + RIGHT_BEHIND)
        known = (self._published < NEVER) & ~self._clock.torn(self._published, until)
        confirmed = (self._confirm_us < NEVER) & ~self._own
        nowhere = known & confirmed & np.where(self._queues < 0, self._routes == 0, self._queues == 0)
        returned = self._groups.max(self._column("returned"))
        sums = ((self._published < NEVER) & ~self._own, confirmed, nowhere & returned, nowhere & ~returned)
        # A full queue may refuse a dead letter; what it refuses of a client is not confirmed.
        missing = np.flatnonzero(known & confirmed & (self._routes < self._queues))
        return Counts(*(int(each.sum()) for each in sums)), self._missing(missing)

    def _missing(self, rows: Any) -> pa.Table:
        numbers, times = self._column("msg_id")[self._groups.starts], self._groups.min(self._column("publish_us"))
        found = [
            {
                "node": self._node,
                "msg_id": int(numbers[row]),
                "verdict": VERDICTS[LOST],
                "violations": [],
                "publish_ts": int(times[row]),
                "confirm_ts": int(self._confirm_us[row]),
                "boots": [int(boot_of(self._published[row]))],
                "first": int(self._published[row]),
                "last": int(self._published[row]),
                "evidence": f"routed to {self._queues[row]} queues at {where(self._published[row])}, "
                f"came into {self._routes[row]}",
            }
            for row in rows.tolist()
        ]
        return pa.Table.from_pylist(found, SCHEMA)
