"""The words of verdicts and violations, and the table that has them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from leveret_spark.events.event_columns import KINDS

SETTLED, QUEUED, NOT_KEPT, UNKNOWN, LOST, NOT_CONFIRMED, OF_MESSAGE = range(7)
VERDICTS = ("settled", "queued", "not kept", "unknown", "lost", "not confirmed", "message")
"""Verdicts on copies; the last one stands in rows on a message's publish and answers, which have no queue."""
VIOLATIONS = (
    "delivered after its end",
    "there again after its end",
    "delivered twice as new",
    "out of order",
    "settled twice",
    "two holders at once",
    "delivered, never published",
    "delivered as new after a restart",
    "its dead letter never came",
    "its dead letter came twice",
    "settled, not delivered",
    "gone while a consumer had it",
    "routed, never published",
    "delivered before its route",
    "routed twice",
    "first delivery marked as redelivered",
    "expired without a time to live",
    "dropped without a limit",
    "released without a delay",
    "died without its dead letter",
    "dead letter unlike its death",
    "recorded, never published",
    "absent from a record, and back",
    "routed into a deleted queue",
    "in its queue twice",
    "persistent, and not kept",
)
"""Violations of copies; `message_rules` has those of messages."""
MOVE = 0
"""The kind of the end of a copy that went on to another place of its queue."""
HOW = np.array(["move", *(KINDS.get(code, "") for code in range(1, max(KINDS) + 1))])

TIME = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    [
        ("node", pa.string()),
        ("vhost", pa.string()),
        ("queue", pa.string()),
        ("position", pa.int64()),
        ("msg_id", pa.int64()),
        ("verdict", pa.string()),
        ("violations", pa.list_(pa.string())),
        ("how", pa.string()),
        ("publish_ts", TIME),
        ("confirm_ts", TIME),
        ("first_deliver_ts", TIME),
        ("deliver_count", pa.int32()),
        ("ack_count", pa.int32()),
        ("boots", pa.list_(pa.int32())),
        ("first", pa.int64()),
        ("last", pa.int64()),
        ("absent", pa.int64()),
        ("evidence", pa.string()),
        ("size_bytes", pa.int32()),
        ("properties", pa.string()),
        ("seen", pa.list_(pa.int64())),
    ]
)
