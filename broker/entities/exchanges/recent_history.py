"""Type x-recent-history: an exchange that publishes its last messages to each new binding.

The history is in memory and does not survive the process, even for persistent messages, as in RabbitMQ's plugin. The
published copies are ordinary messages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from broker.entities.arguments.erlang_terms import printed, value
from broker.entities.exchanges.exchange_types import Fanout
from broker.wire.amqp_errors import precondition_failed
from broker.wire.field_tables import Field, Fields, Table

if TYPE_CHECKING:
    from broker.entities.exchanges.exchange import Destination
    from broker.entities.messages.message import Message

LENGTH_DEFAULT = 20
"""Default of the argument x-recent-history-length."""

_SIGNED_KINDS = frozenset("bsIlL")
_NOT_STORED = Field("t", True)


class RecentHistory(Fanout):
    """Fanout, with the last messages kept for later bindings.

    A message is kept when it is routed, even if no queue is bound; a transaction's message before its commit. Messages
    with the header `x-recent-history-no-store` set to true are not kept.
    """

    by_key_alone = False

    def __init__(self, arguments: Table) -> None:
        super().__init__()
        self.history: deque[Message] = deque(maxlen=_length(arguments))

    def match(self, keys: Sequence[str], headers: Fields, message: Message | None) -> Sequence[Destination]:
        if message is not None and headers.get("x-recent-history-no-store") != _NOT_STORED:
            self.history.append(message)
        return super().match(keys, headers, message)


def _length(arguments: Table) -> int:
    field = arguments.get("x-recent-history-length", Field("l", LENGTH_DEFAULT))
    if field.kind not in _SIGNED_KINDS or field.value < 1:
        found = f"Invalid argument {printed(value(field))}, 'x-recent-history-length' must be a positive integer"
        raise precondition_failed(found)
    return int(field.value)
