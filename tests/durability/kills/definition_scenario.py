"""Declaring, binding, unbinding and deleting: what was answered is there, or gone, after any kill."""

from __future__ import annotations

import random
from collections.abc import Callable

from broker.wire.constants import ReplyCode
from broker.wire.methods import (
    BasicAck,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ConfirmSelect,
    ExchangeDeclareOk,
    QueueDeclareOk,
)
from harness.clients.amqp_peer import Message
from harness.clients.shorthand import exchange_declare, queue_declare
from harness.clients.wire_client import Client
from tests.durability.kills.adapters.client_adapter import ClientAdapter
from tests.durability.ledgers.client_ledger import Tally

NAMES = 12
LOOKING = 2
"""The channel that is closed when something is not there."""
Thing = tuple[str, ...]
"""A queue or an exchange: kind and name; a binding: kind, queue and exchange."""


class Definitions:
    """One client that changes definitions. A thing is there, is not there, or (None) was being changed at a kill."""

    name = "definitions"
    transactional = False

    def __init__(self, dice: random.Random) -> None:
        self.tally = Tally()
        self._dice = dice
        self._there: dict[Thing, bool | None] = {}

    def set_up(self, client: Client) -> None:
        """Nothing is needed."""

    def begin(self, adapter: ClientAdapter) -> None:
        """Nothing is consumed."""

    def step(self, adapter: ClientAdapter) -> None:
        queue = f"definitions.q{self._dice.randrange(NAMES)}"
        exchange = f"definitions.x{self._dice.randrange(NAMES)}"
        self._dice.choice((self._declare, self._declare, self._bind, self._bind, self._unbind, self._delete))(
            adapter, queue, exchange
        )

    def _declare(self, adapter: ClientAdapter, queue: str, exchange: str) -> None:
        lasting = {"x-max-length": 10}
        self._change(("queue", queue), True, lambda: adapter.declare_queue(queue, lasting))
        self._change(("exchange", exchange), True, lambda: adapter.declare_exchange(exchange))

    def _bind(self, adapter: ClientAdapter, queue: str, exchange: str) -> None:
        self._declare(adapter, queue, exchange)
        self._change(("binding", queue, exchange), True, lambda: adapter.bind(queue, exchange, queue))

    def _unbind(self, adapter: ClientAdapter, queue: str, exchange: str) -> None:
        self._declare(adapter, queue, exchange)
        self._change(("binding", queue, exchange), False, lambda: adapter.unbind(queue, exchange, queue))

    def _delete(self, adapter: ClientAdapter, queue: str, exchange: str) -> None:
        if self._dice.random() < 0.5:
            self._change(("queue", queue), False, lambda: adapter.delete_queue(queue))
        else:
            self._change(("exchange", exchange), False, lambda: adapter.delete_exchange(exchange))

    def _change(self, thing: Thing, there: bool, ask: Callable[[], None]) -> None:
        """Ask for something, and know what holds before the answer and after it. What is deleted takes its bindings."""
        things = [thing] if there or len(thing) > 2 else [one for one in {thing, *self._there} if thing[1] in one]
        before = {one: self._there.get(one, False) for one in things}
        self._there |= {one: None if before[one] is not there else there for one in things}
        ask()
        self._there |= dict.fromkeys(things, there)
        self.tally.confirmed += 1

    def rest(self, adapter: ClientAdapter) -> None:
        """Every answer has been awaited."""

    def crashed(self) -> None:
        """What was being asked for is uncertain already."""

    def inspect(self, client: Client) -> list[str]:
        """Look for everything; what was uncertain is certain then."""
        problems = []
        self.tally.checked += len(self._there)
        client.ask(ConfirmSelect(False))
        for thing in sorted(self._there, key=len):
            found, must = self._find(client, thing), self._there[thing]
            if must is not None and must is not found:
                problems.append(f"{self.name}: {thing} should {'' if must else 'not '}be there")
            self._there[thing] = found
        return problems

    def _find(self, client: Client, thing: Thing) -> bool:
        if thing[0] == "binding":
            return self._is_bound(client, *thing[1:])
        declare = queue_declare if thing[0] == "queue" else exchange_declare
        method = declare(thing[1], passive=True)
        client.open_channel(LOOKING)
        client.send(method, channel=LOOKING)
        item = client.receive(channel=LOOKING)
        if isinstance(item, ChannelClose):
            assert item.reply_code == ReplyCode.NOT_FOUND, item
            client.send(ChannelCloseOk(), channel=LOOKING)
            return False
        assert isinstance(item, QueueDeclareOk | ExchangeDeclareOk), item
        client.close_channel(LOOKING)
        return True

    def _is_bound(self, client: Client, queue: str, exchange: str) -> bool:
        """A mandatory message with the binding's key comes back, or not."""
        if not (self._there[("queue", queue)] and self._there[("exchange", exchange)]):
            return False
        client.publish(b"", exchange=exchange, key=queue, mandatory=True)
        item = client.receive()
        if isinstance(item, BasicAck):
            return True
        assert isinstance(item, Message)
        assert isinstance(item.method, BasicReturn)
        client.expect(BasicAck)
        return False
