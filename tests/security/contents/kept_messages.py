"""Confirmed messages of each queue, held against those read there: one by one, in order."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

from broker.wire.methods import BasicAck, BasicDeliver, BasicPublish, ConfirmSelect, TxCommit, TxSelect
from broker.wire.properties import BasicProperties, decode_properties, encode_header
from harness.clients.amqp_peer import Message
from harness.clients.queue_steps import fetch
from harness.clients.shorthand import ack, consume, prefetch
from harness.clients.wire_client import Client
from tests.durability.kills.queue_contents import look

CHANNEL = 98
CLASSIC, QUORUM, STREAM = "classic", "quorum", "stream"
FIRST, LAST = "x-first-death-", "x-last-death-"
ADDED_HEADERS = {
    *("x-stream-offset", "x-delivery-count", "x-death"),
    *(of + what for of in (FIRST, LAST) for what in ("queue", "reason", "exchange")),
}
"""Headers that the broker adds to a message that it delivers, or that has died."""
SHOWN_PROBLEMS = 5


class Sent(NamedTuple):
    """A message as it was published. `header` is the content header; empty where the API has made it."""

    body: bytes
    header: bytes
    exchange: str = ""
    key: str = ""

    def is_read_as(self, found: Message) -> bool:
        """The same in every byte, but for what the broker adds."""
        method = found.method
        if (self.body, self.exchange, self.key) != (found.body, method.exchange, method.routing_key):
            return False
        if self.header in (b"", found.header):
            return True
        added = [key for key in found.properties.headers or {} if key in ADDED_HEADERS]
        return bool(added) and without_added(self.header) == without_added(found.header)

    def __str__(self) -> str:
        return f"{shown(self.body)} by {self.exchange[:30]!a} {self.key[:30]!a}"


def shown(body: bytes) -> str:
    """A body in a few words."""
    return f"{len(body)} bytes {body[:24]!r} {sha256(body).hexdigest()[:8]}"


def without_added(header: bytes) -> BasicProperties:
    """Properties without the headers that the broker adds. It sorts the others then, so their order says nothing."""
    properties = decode_properties(header)
    headers = {key: value for key, value in (properties.headers or {}).items() if key not in ADDED_HEADERS}
    return properties._replace(headers=headers or None)


def persistent(body: bytes, key: str, **properties: object) -> Sent:
    """A persistent message by the default exchange."""
    made = BasicProperties(delivery_mode=2)._replace(**properties)
    return Sent(body, encode_header(len(body), made), "", key)


class Place:
    """One queue, and what it must hold."""

    def __init__(self, vhost: str, queue: str, kind: str = CLASSIC) -> None:
        self.vhost = vhost
        self.queue = queue
        self.kind = kind
        self.held: list[Sent] = []
        self.uncertain: list[Sent] = []
        """Published before a kill and not confirmed: the first of them may be there, behind what is held."""
        self.published = 0
        """Messages that have ever been there, the uncertain ones included."""
        self.came = 0
        """Messages that have certainly come."""
        self.delivered = 0
        """Messages at the head that were delivered before."""
        self.kept_out = False
        """A consumer has what is in it."""

    def confirmed(self, sent: Sequence[Sent]) -> None:
        """They are to be there from now on."""
        self.held += sent
        self.published += len(sent)
        self.came += len(sent)

    def unanswered(self, sent: Sequence[Sent]) -> None:
        """They may be there after the kill that follows."""
        self.uncertain += sent
        self.published += len(sent)

    def taken(self, count: int) -> None:
        """Acknowledge `count` messages at the head, for good."""
        del self.held[:count]
        self.delivered = max(0, self.delivered - count)

    def read(self, found: Sequence[Message]) -> list[str]:
        """Hold what is there, all of it, against what must be. Uncertain messages are certain then."""
        where = f"{self.vhost[:40]!a} {self.queue[:40]!a}"
        missing = len(self.held) - len(found)
        arrived = self.uncertain[: max(0, -missing)]
        expected = [*self.held, *arrived]
        problems = [f"{where}: {len(found)} messages, of {len(self.held)} confirmed"] if missing > 0 else []
        problems += [f"{where}: nobody has published {shown(each.body)}" for each in found[len(expected) :]]
        for number, (sent, message) in enumerate(zip(expected, found, strict=False)):
            if not sent.is_read_as(message):
                method = message.method
                read = f"{shown(message.body)} by {method.exchange[:30]!a} {method.routing_key[:30]!a}"
                header = "" if message.header == sent.header else f" header {message.header[:60]!r}"
                problems.append(f"{where}, message {number}: expected {sent}, found {read}{header}")
            elif message.method.redelivered and number >= self.delivered:
                problems.append(f"{where}, message {number}: redelivered, and nobody was given it: {sent}")
        self.held, self.uncertain, self.came = expected, [], self.came + len(arrived)
        self.delivered, self.kept_out = len(found), False
        more = len(problems) - SHOWN_PROBLEMS
        return problems if more <= 0 else [*problems[:SHOWN_PROBLEMS], f"{where}: {more} more of these"]


def publish(client: Client, place: Place, sent: Sequence[Sent]) -> None:
    """Publish in confirm mode, and await that all are confirmed."""
    _send(client, sent)
    answered = set[int]()
    while len(answered) < len(sent):
        answer = client.expect(BasicAck, channel=CHANNEL)
        answered |= set(range(1, answer.delivery_tag + 1)) if answer.multiple else {answer.delivery_tag}
    client.close_channel(CHANNEL)
    place.confirmed(sent)


def publish_unanswered(client: Client, place: Place, sent: Sequence[Sent]) -> None:
    """Publish, and wait for nothing: the broker is killed next."""
    _send(client, sent)
    place.unanswered(sent)


def _send(client: Client, sent: Sequence[Sent]) -> None:
    client.open_channel(CHANNEL)
    client.ask(ConfirmSelect(False), channel=CHANNEL)
    for each in sent:
        method = BasicPublish(each.exchange, each.key, False, False)
        client.send_content(method, each.header, each.body, channel=CHANNEL)


def take(client: Client, place: Place, count: int) -> None:
    """Acknowledge `count` from the head in a transaction, which is on disk when it is committed."""
    if not count:
        return
    client.open_channel(CHANNEL)
    client.ask(TxSelect(), channel=CHANNEL)
    last = fetch(client, place.queue, count, channel=CHANNEL)[-1]
    client.send(ack(last.method.delivery_tag, multiple=True), channel=CHANNEL)
    client.ask(TxCommit(), channel=CHANNEL)
    client.close_channel(CHANNEL)
    place.taken(count)


def read(client: Client, place: Place) -> list[str]:
    """Read all of a queue, leave it there, and say what is wrong. The connection is to be closed afterwards."""
    found = _read_stream(client, place) if place.kind == STREAM else look(client, place.queue)
    return place.read(found)


def _read_stream(client: Client, place: Place) -> list[Message]:
    """A stream from its first message to one that is appended to it here, which has a body of its own."""
    end = persistent(b"the end, at %d" % place.published, place.queue)
    publish(client, place, [end])
    client.open_channel(CHANNEL)
    client.ask(prefetch(len(place.held) + 10), channel=CHANNEL)
    client.ask(consume(place.queue, "reading", arguments={"x-stream-offset": "first"}), channel=CHANNEL)
    found: list[Message] = []
    while not found or found[-1].body != end.body:
        found.append(client.expect_message(BasicDeliver, channel=CHANNEL))
    client.close_channel(CHANNEL)
    return found
