"""Types x-random and x-local-random: each message to one binding, chosen at random."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING

from broker.entities.arguments.queue_types import CLASSIC
from broker.entities.exchanges.exchange_types import OneBinding
from broker.wire.amqp_errors import precondition_failed
from broker.wire.field_tables import Fields, Table

if TYPE_CHECKING:
    from broker.entities.exchanges.exchange import Destination
    from broker.entities.messages.message import Message


class RandomChoice(OneBinding):
    """Type x-random: one binding for each message, whatever its keys. A destination bound twice is twice as likely."""

    by_key_alone = False

    def __init__(self, chance: Random) -> None:
        super().__init__()
        self._chance = chance

    def match(self, keys: Sequence[str], headers: Fields, message: Message | None) -> Sequence[Destination]:
        return (self._chance.choice(self.destinations),) if self.destinations else ()


class LocalRandom(RandomChoice):
    """Type x-local-random of RabbitMQ 4.0: classic queues of this node only. On one node every queue is local."""

    def check_binding(self, key: str, arguments: Table, destination: str) -> None:
        if key:
            raise precondition_failed(f"Non empty binding '{key}' key not permitted")
        if destination == "exchange":
            raise precondition_failed("Destination not found")
        if destination != CLASSIC.module:
            raise precondition_failed(f"Queue type {destination} not valid for this exchange type")
