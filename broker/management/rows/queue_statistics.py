"""What is shown of a queue's messages beside `Depth`, and of what was counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker.entities.arguments.queue_types import CLASSIC
from broker.entities.queues.depth import head_timestamp
from broker.entities.queues.queue import Queue
from broker.entities.queues.quorum_queue import QuorumQueue
from broker.management.columns import ABSENT

TOTALS: dict[str, Callable[[Queue], Any]] = {
    "messages": lambda queue: queue.messages,
    "messages_ready": lambda queue: queue.ready,
    "messages_unacknowledged": lambda queue: queue.unacked,
}
"""The first fields of `Depth`, each by itself; all that is shown where statistics are disabled."""

STATISTICS: dict[str, Callable[[Queue], Any]] = {
    "consumer_capacity": lambda queue: queue.consumers.capacity,
    "consumer_utilisation": lambda queue: queue.consumers.capacity,
    "head_message_timestamp": lambda queue: head_timestamp(queue) if queue.type is CLASSIC else ABSENT,
    "messages_dlx": lambda queue: len(queue.dead_letters) if isinstance(queue, QuorumQueue) else ABSENT,
    "message_bytes_dlx": lambda queue: queue.dead_letters.bytes if isinstance(queue, QuorumQueue) else ABSENT,
}
