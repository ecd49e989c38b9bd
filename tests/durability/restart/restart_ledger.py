"""One client under load, and what may be demanded of its queue after the broker was killed.

The client publishes to one queue and consumes from it over one channel, so everything it does reaches the broker in one
order. What it did before a publish was, at the latest, in the same commit as that publish. A confirm therefore proves
more than its own message: every acknowledgement and every delivery before that publish is on disk as well. One kind of
confirm proves nothing: that of a message the client acknowledged itself, for it may have been settled before it was
ever written; and a transient message's, which waits for no commit.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from broker.wire.methods import BasicAck, BasicDeliver, BasicGetEmpty, ConfirmSelect
from broker.wire.properties import encode_header
from harness.clients.amqp_peer import Message
from harness.clients.contents import PERSISTENT, TRANSIENT
from harness.clients.shorthand import ack, consume, get, nack, prefetch
from harness.clients.wire_client import Client

PREFETCH = 50
BODY_BYTES_MAX = 3000
NEVER = 1 << 60


@dataclass
class Noted:
    """A message, and at which point (counted in publishes of the channel) what happened to it."""

    persistent: bool
    tag: int
    """Its publish's number on the channel; 0 for one that an earlier life of the broker confirmed."""
    confirmed: bool = False
    delivered_at: int = NEVER
    acked_at: int = NEVER


@dataclass
class Ledger:
    """Everything a client knows of its queue. Messages are numbered in the order of their publishes."""

    queue: str
    dice: random.Random
    messages: dict[int, Noted] = field(default_factory=dict)
    next_number: int = 0
    by_tag: dict[int, int] = field(default_factory=dict)
    reach: int = -1
    """The highest number that was delivered."""

    # --- the life of a client: begin, step by step, until the connection breaks ---

    def begin(self, client: Client) -> None:
        """Start publishing and consuming on channel 1 of a new connection."""
        self.by_tag.clear()
        client.ask(ConfirmSelect(False))
        client.ask(prefetch(PREFETCH))
        client.ask(consume(self.queue, "c"))

    def step(self, client: Client) -> int:
        """Publish some, take in what has come; return how many are confirmed. Raises what the socket raises."""
        for _ in range(self.dice.randint(1, 20)):
            self.publish(client)
        for item in [client.receive(), *client.arrived()]:
            self.take(client, item)
        return sum(1 for note in self.messages.values() if note.confirmed and note.tag)

    def publish(self, client: Client, *, persistent: bool | None = None) -> None:
        number, tag = self.next_number, len(self.by_tag) + 1
        self.next_number += 1
        keep = self.dice.random() < 0.8 if persistent is None else persistent
        self.by_tag[tag] = number
        self.messages[number] = Noted(keep, tag)
        body = self.body(number)
        header = encode_header(len(body), PERSISTENT if keep else TRANSIENT)
        client.publish(body, key=self.queue, header=header)

    def body(self, number: int) -> bytes:
        size = random.Random(f"{self.queue} {number}").randint(0, BODY_BYTES_MAX)
        return b"%s %d %s" % (self.queue.encode(), number, b"%d" % (number % 10) * size)

    def take(self, client: Client, item: object) -> None:
        if isinstance(item, BasicAck):
            self.confirm(item)
        else:
            assert isinstance(item, Message), item
            assert isinstance(item.method, BasicDeliver)
            self.deliver(client, item)

    def confirm(self, confirm: BasicAck) -> None:
        tags = [confirm.delivery_tag]
        if confirm.multiple:
            tags = [tag for tag in range(confirm.delivery_tag + 1) if tag in self.by_tag]
        for tag in tags:
            note = self.messages[self.by_tag[tag]]
            assert not note.confirmed or confirm.multiple, f"{tag} confirmed twice"
            note.confirmed = True

    def deliver(self, client: Client, message: Message) -> None:
        number, now, tag = self.number_of(message), len(self.by_tag), message.method.delivery_tag
        note = self.messages[number]
        assert note.acked_at == NEVER, f"{number} delivered after its acknowledgement"
        self.reach = max(self.reach, number)
        note.delivered_at = min(note.delivered_at, now)
        chance = self.dice.random()
        if chance < 0.85:
            client.send(ack(tag))
            note.acked_at = now
        elif chance < 0.95:
            client.send(nack(tag))

    def number_of(self, message: Message) -> int:
        number = int(message.body.split(b" ")[1])
        assert message.body == self.body(number), f"the body of {number} is not what was published"
        return number

    # --- after the kill ---

    def proven_point(self) -> int:
        """The last publish whose confirm proves that it, and all before it, is on disk."""
        proofs = [
            note.tag
            for note in self.messages.values()
            if note.persistent and note.confirmed and note.tag and note.acked_at == NEVER
        ]
        return max(proofs, default=-1)

    def expect(self, found: list[tuple[int, bool]]) -> None:
        """Hold (number, redelivered) of every message in the queue against what is known. Nothing is taken on trust."""
        numbers = [number for number, _ in found]
        assert numbers == sorted(set(numbers)), f"{self.queue}: out of order or twice"
        proven, present = self.proven_point(), set(numbers)
        assert present <= self.messages.keys()
        for number, note in self.messages.items():
            if not note.persistent:
                assert number not in present, f"{self.queue}: transient {number} came back"
            elif note.acked_at < proven:
                assert number not in present, f"{self.queue}: {number} came back after a synced acknowledgement"
            elif note.confirmed and note.acked_at == NEVER:
                assert number in present, f"{self.queue}: confirmed {number} is lost"
        for number, redelivered in found:
            if self.messages[number].delivered_at < proven:
                assert redelivered, f"{self.queue}: {number} was delivered before, and does not say so"
            if number > self.reach + PREFETCH * 2:
                assert not redelivered, f"{self.queue}: {number} was never delivered, and says it was"

    def inspect(self, client: Client) -> None:
        """Look at the whole queue, hold it against what is known, and settle a part of it before the next life."""
        found: list[tuple[int, bool]] = []
        tags: dict[int, int] = {}
        while True:
            client.send(get(self.queue))
            item = client.receive()
            if isinstance(item, BasicGetEmpty):
                break
            assert isinstance(item, Message)
            number = self.number_of(item)
            tags[number] = item.method.delivery_tag
            found.append((number, item.method.redelivered))
        self.expect(found)
        self.reach = max([self.reach, *tags])  # this look was a delivery, too
        self.carry_over(client, tags)

    def carry_over(self, client: Client, tags: dict[int, int]) -> None:
        """Acknowledge some, prove that by a confirm, and note what is left as confirmed and delivered."""
        kept = {number: tag for number, tag in tags.items() if self.dice.random() < 0.3}
        for number in tags.keys() - kept.keys():
            client.send(ack(tags[number]))
        self.messages = {number: Noted(True, 0, confirmed=True, delivered_at=-2) for number in sorted(kept)}
        self.by_tag.clear()
        client.ask(ConfirmSelect(False))
        self.publish(client, persistent=True)
        self.confirm(client.expect(BasicAck))
        self.messages[self.next_number - 1].tag = 0
