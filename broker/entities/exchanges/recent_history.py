"""An exchange that gives its last messages to each new binding.

What it remembers is in memory and ends with the process, persistent or not, as in RabbitMQ's plugin: it keeps
them in a table of that kind. The copies it hands out are messages like any other.
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
"""How many messages are remembered when the declaration does not say."""

_SIGNED_KINDS = frozenset("bsIlL")
_NOT_STORED = Field("t", True)


class RecentHistory(Fanout):
    """Everything to every binding, and the last messages to later ones.

    A message is remembered when it is routed, bound queues or none: one of a transaction before its commit, and
    one with the header `x-recent-history-no-store` set to true never.
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
