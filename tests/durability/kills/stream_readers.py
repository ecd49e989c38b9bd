"""A stream that is published to and read at once: offsets stay, what a confirm or a reader has named is there."""

from __future__ import annotations

import random
from collections.abc import Iterable

from broker.wire.methods import BasicDeliver, QueueDeclareOk
from harness.clients.shorthand import consume, prefetch, queue_declare, queue_delete
from harness.clients.wire_client import Client
from tests.durability.kills.adapters.client_adapter import ClientAdapter, Publication, Verdict
from tests.durability.ledgers.client_ledger import Tally
from tests.durability.ledgers.oracle import Debt, Found, Owed, verdicts

NAME = "log"
ARGUMENTS = {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 20_000}
PUBLISHED_AT_ONCE_MAX = 12
LOOKING = 2
"""The channel of a look at all of it."""
RENEWED_FROM_MESSAGES = 1500


class Log:
    """One client that publishes to a stream and reads it; the stream is deleted and made anew when it is long."""

    name = NAME
    transactional = False

    def __init__(self, dice: random.Random) -> None:
        self.tally = Tally()
        self._dice = dice
        self._number = 0
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._first = self._number + 1
        self._confirmed: set[int] = set()
        self._read: dict[int, int] = {}

    def set_up(self, client: Client) -> None:
        client.ask(queue_declare(NAME, durable=True, arguments=ARGUMENTS))

    def begin(self, adapter: ClientAdapter) -> None:
        """Read from the beginning or from the end; one that reconnects by itself goes on as it was told first."""
        adapter.consume(NAME, {"x-stream-offset": self._dice.choice(("first", "next", "last"))})

    def step(self, adapter: ClientAdapter) -> None:
        count = self._dice.randint(1, PUBLISHED_AT_ONCE_MAX)
        numbers = range(self._number + 1, self._number + 1 + count)
        self._number += count
        self.tally.published += count
        persistent = self._dice.random() < 0.5
        adapter.publish([Publication(n, b"%d" % n, "", NAME, persistent) for n in numbers], self._note_confirm)
        verdicts = []
        for delivery in adapter.take():
            self._note_read(int(delivery.headers["x-stream-offset"]), int(delivery.body))
            verdicts.append((delivery, Verdict.ACK))
        self.tally.delivered += len(verdicts)
        self.tally.acked += len(verdicts)
        adapter.settle(verdicts)

    def rest(self, adapter: ClientAdapter) -> None:
        """Every confirm has been awaited."""

    def _note_confirm(self, number: int) -> None:
        assert number not in self._confirmed, f"{NAME}: {number} was confirmed twice"
        self._confirmed.add(number)
        self.tally.confirmed += 1

    def _note_read(self, offset: int, number: int) -> None:
        known = self._read.setdefault(offset, number)
        assert known == number, f"{NAME}: offset {offset} was {known} and is {number}"

    def crashed(self) -> None:
        """Nothing is uncertain but what was not confirmed and not read."""

    def inspect(self, client: Client) -> list[str]:
        held = self._look(client)
        self.tally.checked += len(held)
        problems = [f"{NAME}: {text}" for text in self._problems(held)]
        if not problems:
            self._read = dict(enumerate(held))  # it came back from the disk, so it stays
            if len(held) > RENEWED_FROM_MESSAGES:
                client.ask(queue_delete(NAME))
                client.ask(queue_declare(NAME, durable=True, arguments=ARGUMENTS))
                self._begin_anew()
        return problems

    def _look(self, client: Client) -> list[int]:
        """The numbers of all messages; the offsets must be dense."""
        declared: QueueDeclareOk = client.ask(queue_declare(NAME, passive=True))
        client.open_channel(LOOKING)
        client.ask(prefetch(65535), channel=LOOKING)
        client.ask(consume(NAME, "look", arguments={"x-stream-offset": "first"}), channel=LOOKING)
        held = []
        for offset in range(declared.message_count):
            message = client.expect_message(BasicDeliver, channel=LOOKING)
            found = (message.properties.headers or {})["x-stream-offset"].value
            assert found == offset, f"{NAME}: offset {found} comes after {offset - 1}"
            held.append(int(message.body))
        client.close_channel(LOOKING)
        return held

    def _problems(self, held: list[int]) -> Iterable[str]:
        numbers = range(self._first, self._number + 1)
        owed = [Owed(number, frozenset((NAME,)), number in self._confirmed) for number in numbers]
        debt = Debt(owed, order=lambda queue, number: ("", number))
        yield from (verdict.text for verdict in verdicts(debt, {NAME: list(map(Found, held))}))
        for offset, number in self._read.items():
            if held[offset : offset + 1] != [number]:
                yield f"{number} was read at {offset}, where there is {held[offset : offset + 1]}"
