"""What is shown of a queue's messages, and counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker.entities.queues.queue import Queue

TOTALS: dict[str, Callable[[Queue], Any]] = {
    "messages": lambda queue: queue.messages,
    "messages_ready": lambda queue: queue.ready,
    "messages_unacknowledged": lambda queue: queue.unacked,
}

STATISTICS: dict[str, Callable[[Queue], Any]] = {
    **TOTALS,
    "messages_persistent": lambda queue: queue.store.state.messages,
    "message_bytes_ready": lambda queue: queue.ready_bytes,
    "message_bytes_persistent": lambda queue: queue.store.state.bytes,
}
