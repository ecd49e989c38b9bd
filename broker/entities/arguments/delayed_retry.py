"""Delayed retry of quorum queues: the delay of returned messages, from arguments and policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from broker.entities.arguments.queue_arguments import QueueArguments


class DelayedRetry(NamedTuple):
    """The delay of returned messages, in milliseconds: `least` times the delivery count, at most `most`.

    With type `failed` those messages are delayed that were rejected, or whose channel has ended; with `returned` those
    that came back by basic.nack, basic.recover or a consumer timeout.
    """

    type: str
    least: int
    most: int

    def delay(self, counted: int, *, failed: bool) -> int:
        """Return the delay of a message that has come back, with its delivery count; 0: none."""
        if self.type not in ("all", "failed" if failed else "returned"):
            return 0
        return min(self.least * max(1, counted), self.most)

    def __str__(self) -> str:
        return f"{self.type} (min: {self.least}ms, max: {self.most}ms)"


def delayed_retry(arguments: QueueArguments) -> DelayedRetry | None:
    """Return the delay that a queue's arguments in force ask for; None: an unknown type or no valid minimum."""
    type_, least, most = arguments.delayed_retry_type, arguments.delayed_retry_min, arguments.delayed_retry_max
    if type_ not in ("all", "failed", "returned") or least is None or least <= 0:
        return None
    return DelayedRetry(type_, least, most if most is not None and most > 0 else least)
