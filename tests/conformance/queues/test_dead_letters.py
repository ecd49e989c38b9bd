"""Dead letters: which messages become one, what is written into them, and where they go.

Everything was recorded from RabbitMQ 3.10.8 on the wire. The headers `x-last-death-*` are RabbitMQ 3.13's (its
documentation, Dead Letter Exchanges): Leveret writes them, the reference does not, and these tests look past them.
"""

from __future__ import annotations

from typing import Any

import pytest

from broker.wire.field_tables import Field, from_python
from broker.wire.methods import BasicAck, BasicNack, BasicReject, ConfirmSelect, ExchangeDelete, QueuePurge
from harness.clients.amqp_peer import Message
from harness.clients.contents import ALL_PROPERTIES, with_headers
from harness.clients.queue_steps import bodies, deposit, drain, drain_messages, fetch, ready
from harness.clients.shorthand import exchange_bind, exchange_declare, nack, queue_bind, queue_declare, queue_delete
from harness.clients.wire_client import Client
from harness.waiting import eventually
from tests.conformance import Made


class DeadLetterQueue:
    """A queue for dead letters, and queues whose messages end in it."""

    def __init__(self, client: Client, declare: Made) -> None:
        self.client = client
        self.declare = declare
        self.queue = declare()

    def dying(self, **arguments: Any) -> str:
        """A queue with this dead-letter queue."""
        return self.declare(dead_letter_exchange="", dead_letter_routing_key=self.queue, **arguments)

    def reject(self, queue: str) -> None:
        """Take one message from a queue and reject it."""
        (message,) = fetch(self.client, queue)
        self.client.send(nack(message.method.delivery_tag, requeue=False))

    def take(self, count: int, queue: str = "") -> list[Message]:
        """Await `count` dead letters, and take them."""
        found: list[Message] = []
        eventually(
            lambda: found.extend(drain_messages(self.client, queue or self.queue)) or len(found) >= count,
            "dead letters",
        )
        assert len(found) == count
        return found

    def take_one(self, queue: str = "") -> Message:
        """Await one dead letter."""
        (message,) = self.take(1, queue)
        return message


@pytest.fixture
def dead_letters(client: Client, new_queue: Made) -> DeadLetterQueue:
    return DeadLetterQueue(client, new_queue)


def headers(dead_letter: Message) -> dict[str, Field]:
    """A dead letter's headers, in order, without those of later RabbitMQs."""
    found = dead_letter.properties.headers or {}
    return {name: field for name, field in found.items() if not name.startswith("x-last-death-")}


def deaths(dead_letter: Message) -> list[dict[str, Field]]:
    """The entries of x-death."""
    field = headers(dead_letter)["x-death"]
    assert field.kind == "A"
    return [entry.value for entry in field.value]


def counts(dead_letter: Message) -> list[tuple[str, str, int]]:
    """Queue, reason and count of each entry of x-death."""
    return [
        (entry["queue"].value.decode(), entry["reason"].value.decode(), entry["count"].value)
        for entry in deaths(dead_letter)
    ]


def circle(client: Client, name: Made, first: int | None = None, second: int | None = None) -> tuple[str, str]:
    """Two queues, each with the other for its dead letters, and with a time to live in milliseconds."""
    one, two = name(), name()
    for queue, other, ttl in ((one, two, first), (two, one, second)):
        arguments: dict[str, Any] = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": other}
        arguments |= {} if ttl is None else {"x-message-ttl": ttl}
        client.ask(queue_declare(queue, exclusive=True, arguments=arguments))
    return one, two


def text(value: str) -> Field:
    return Field("S", value.encode())


ALL = ALL_PROPERTIES._replace(headers=from_python({"z": 1, "a": "b"}), cluster_id=None)


def test_a_rejected_message_in_full(client: Client, dead_letters: DeadLetterQueue) -> None:
    """Every property stays but `expiration`, which goes into the death; headers come in alphabetical order."""
    queue = dead_letters.dying()
    deposit(client, b"body", key=queue, properties=ALL)
    dead_letters.reject(queue)
    dead_letter = dead_letters.take_one()
    assert (dead_letter.body, dead_letter.method.exchange, dead_letter.method.routing_key) == (
        b"body",
        "",
        dead_letters.queue,
    )
    assert dead_letter.method.redelivered is False
    assert dead_letter.properties._replace(headers=None) == ALL._replace(headers=None, expiration=None)
    (death,) = deaths(dead_letter)
    assert headers(dead_letter) == {
        "a": text("b"),
        "x-death": Field("A", [Field("F", death)]),
        "x-first-death-exchange": text(""),
        "x-first-death-queue": text(queue),
        "x-first-death-reason": text("rejected"),
        "z": Field("I", 1),
    }
    assert list(headers(dead_letter)) == sorted(headers(dead_letter))
    assert death.pop("time").kind == "T"
    assert list(death.items()) == [
        ("count", Field("l", 1)),
        ("reason", text("rejected")),
        ("queue", text(queue)),
        ("exchange", text("")),
        ("routing-keys", Field("A", [text(queue)])),
        ("original-expiration", text("60000")),
    ]


def test_dying_again_of_the_same_counts_on(client: Client, dead_letters: DeadLetterQueue, name: Made) -> None:
    """One entry per queue and reason; it comes to the front, its fields in alphabetical order from the second death."""
    one, two = circle(client, name)
    deposit(client, b"x", key=one)
    for queue in (one, two, one, two):
        eventually(lambda queue=queue: ready(client, queue), "the message")
        dead_letters.reject(queue)
    dead_letter = dead_letters.take_one(one)
    assert counts(dead_letter) == [(two, "rejected", 2), (one, "rejected", 2)]
    assert list(deaths(dead_letter)[0]) == ["count", "exchange", "queue", "reason", "routing-keys", "time"]
    assert headers(dead_letter)["x-first-death-queue"] == text(one)


def test_several_at_once_keep_their_order(client: Client, dead_letters: DeadLetterQueue) -> None:
    """Purging and deleting are no deaths."""
    queue = dead_letters.dying()
    deposit(client, b"1", b"2", b"3", key=queue)
    fetch(client, queue, 3)
    client.send(nack(3, multiple=True, requeue=False))
    assert bodies(dead_letters.take(3)) == [b"1", b"2", b"3"]
    deposit(client, b"4", key=queue)
    client.ask(QueuePurge(queue, False))
    deposit(client, b"5", key=queue)
    client.ask(queue_delete(queue))
    assert drain(client, dead_letters.queue) == []


def test_rejected_one_by_one_in_a_row(client: Client, dead_letters: DeadLetterQueue) -> None:
    """A tag that is not outstanding ends the channel: what was rejected before it is dead, the rest comes back."""
    queue = dead_letters.dying()
    deposit(client, b"1", b"2", b"3", b"4", key=queue)
    client.open_channel(2)
    fetch(client, queue, 4, channel=2)
    client.send(*(BasicReject(tag, False) for tag in (1, 2, 99, 3)), channel=2)
    unknown = "channel 406 PRECONDITION_FAILED - unknown delivery tag 99"
    assert client.closing(BasicReject, channel=2) == unknown
    assert bodies(dead_letters.take(2)) == [b"1", b"2"]
    assert drain(client, queue) == [b"3", b"4"]


@pytest.mark.parametrize(
    ("written", "entries", "first"),
    [("text", 1, False), ([], 1, False), ({"a": 1}, 1, False), ([{}], 2, False), (None, 1, True)],
    ids=["text", "empty", "table", "array of an empty table", "nothing"],
)
def test_what_a_publisher_wrote_into_x_death(
    client: Client, dead_letters: DeadLetterQueue, written: object, entries: int, first: bool
) -> None:
    """An x-death that is no array is replaced. A message with an x-death counts as dead before, whatever is in it."""
    queue = dead_letters.dying(max_length=0)
    deposit(client, b"x", key=queue, properties=with_headers({} if written is None else {"x-death": written}))
    dead_letter = dead_letters.take_one()
    assert len(deaths(dead_letter)) == entries
    assert deaths(dead_letter)[0]["queue"] == text(queue)
    assert ("x-first-death-queue" in headers(dead_letter)) is first


# Which keys


@pytest.mark.parametrize("replaced", [False, True], ids=["all keys of the message", "one of the queue"])
def test_which_keys_count(client: Client, dead_letters: DeadLetterQueue, new_exchange: Made, replaced: bool) -> None:
    """All of the message again, blind ones too, although nobody sees them: not in headers, not in the death.

    A routing key of the queue replaces them all, and the CC header goes.
    """
    exchange = new_exchange()
    new_key = {"dead_letter_routing_key": "new"} if replaced else {}
    queue = dead_letters.declare(dead_letter_exchange=exchange, **new_key)
    bound = {key: dead_letters.declare(exchange, key) for key in (queue, "open", "blind", "new")}
    deposit(client, b"x", key=queue, properties=with_headers({"CC": ["open"], "BCC": ["blind"]}))
    dead_letters.reject(queue)
    reached = ["new"] if replaced else [queue, "open", "blind"]
    first = [f"x-first-death-{what}" for what in ("exchange", "queue", "reason")]
    for key in reached:
        dead_letter = dead_letters.take_one(bound[key])
        assert list(headers(dead_letter)) == [*([] if replaced else ["CC"]), "x-death", *first]
        assert deaths(dead_letter)[0]["routing-keys"] == Field("A", [text(queue), text("open")])
        assert dead_letter.method.routing_key == ("new" if replaced else queue)
    assert [drain(client, bound[key]) for key in bound.keys() - set(reached)] == [[]] * (4 - len(reached))


# Where to


def test_an_exchange_may_go_and_come_back_as_another(client: Client, dead_letters: DeadLetterQueue, name: Made) -> None:
    """It is looked for by its name each time."""
    exchange = name()
    queue = dead_letters.declare(max_length=0, dead_letter_exchange=exchange)
    client.ask(exchange_declare(exchange, "fanout"))
    client.ask(queue_bind(dead_letters.queue, exchange))
    deposit(client, b"1", key=queue)
    assert dead_letters.take_one().body == b"1"
    client.ask(ExchangeDelete(exchange, False, False))
    deposit(client, b"lost", key=queue)
    client.ask(exchange_declare(exchange, auto_delete=True))
    client.ask(queue_bind(dead_letters.queue, exchange, queue))
    deposit(client, b"3", key=queue)
    assert dead_letters.take_one().body == b"3"


@pytest.mark.parametrize("internal", [False, True])
def test_dead_letters_pass_from_exchange_to_exchange(
    client: Client, dead_letters: DeadLetterQueue, new_exchange: Made, internal: bool
) -> None:
    """An internal exchange takes them, but no publishes of clients. An alternate takes what no binding does."""
    first, second = new_exchange("fanout", internal=internal), new_exchange("topic")
    client.ask(exchange_bind(second, first))
    client.ask(queue_bind(dead_letters.queue, second, "#"))
    deposit(client, b"x", key=dead_letters.declare(max_length=0, dead_letter_exchange=first))
    assert dead_letters.take_one().method.exchange == first
    deaf = new_exchange(arguments={"alternate-exchange": first})
    deposit(client, b"x", key=dead_letters.declare(max_length=0, dead_letter_exchange=deaf))
    assert dead_letters.take_one().method.exchange == deaf


def test_a_headers_exchange_sees_the_headers_of_the_dead_letter(
    client: Client, dead_letters: DeadLetterQueue, new_exchange: Made
) -> None:
    """Those that dying has written as well."""
    exchange = new_exchange("headers")
    queue = dead_letters.declare(max_length=0, dead_letter_exchange=exchange)
    client.ask(
        queue_bind(dead_letters.queue, exchange, arguments={"x-match": "all-with-x", "x-first-death-queue": queue})
    )
    own = dead_letters.declare()
    client.ask(queue_bind(own, exchange, arguments={"x-match": "all", "k": "v"}))
    deposit(client, b"x", key=queue, properties=with_headers({"k": "v"}))
    assert dead_letters.take_one().body == dead_letters.take_one(own).body == b"x"


@pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])
def test_a_full_dead_letter_queue_takes_no_more(client: Client, dead_letters: DeadLetterQueue, overflow: str) -> None:
    """With overflow reject-publish the dead letter is gone; else it goes to that queue's own. Messages there stay."""
    full = dead_letters.dying(max_length=1, overflow=overflow)
    queue = dead_letters.declare(max_length=0, dead_letter_exchange="", dead_letter_routing_key=full)
    deposit(client, b"1", b"2", key=queue)
    if overflow == "reject-publish-dlx":
        dead_letter = dead_letters.take_one()
        assert (dead_letter.body, counts(dead_letter)) == (b"2", [(full, "maxlen", 1), (queue, "maxlen", 1)])
    assert dead_letters.take_one(full).body == b"1"
    assert drain(client, dead_letters.queue) == []


# Round and round


def test_a_circle_that_nobody_rejected_in_ends(client: Client, name: Made) -> None:
    queues = circle(client, name, 1, 1)
    deposit(client, b"x", key=queues[0])
    eventually(lambda: sum(ready(client, queue) for queue in queues) == 0, "the message to be gone")


@pytest.mark.parametrize("limit", [{"x-max-length": 0}, {"x-message-ttl": 0}])
def test_a_queue_is_not_its_own_dead_letter_queue_by_itself(client: Client, name: Made, limit: dict[str, int]) -> None:
    queue = name()
    arguments = {**limit, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}
    client.ask(queue_declare(queue, exclusive=True, arguments=arguments))
    deposit(client, b"x", key=queue)
    assert drain(client, queue) == []


def test_a_circle_with_a_rejection_goes_on(client: Client, dead_letters: DeadLetterQueue, name: Made) -> None:
    """The usual way to try again later."""
    work, later = circle(client, name, None, 1)
    deposit(client, b"x", key=work)
    for _ in range(3):
        eventually(lambda: ready(client, work), "the message to be back")
        dead_letters.reject(work)
    dead_letter = dead_letters.take_one(work)
    assert counts(dead_letter) == [(later, "expired", 3), (work, "rejected", 3)]


# Confirms, and what publishers wrote


def test_the_confirm_of_what_dies_at_once(client: Client, dead_letters: DeadLetterQueue) -> None:
    """Dropped from the head it was taken first, and is confirmed; refused it is not."""
    client.open_channel(2)
    client.ask(ConfirmSelect(False), channel=2)
    client.publish(b"1", key=dead_letters.dying(max_length=0), channel=2)
    assert client.expect(BasicAck, channel=2).delivery_tag == 1
    client.publish(b"2", key=dead_letters.dying(max_length=0, overflow="reject-publish-dlx"), channel=2)
    assert client.expect(BasicNack, channel=2).delivery_tag == 2
    assert bodies(dead_letters.take(2)) == [b"1", b"2"]


def test_a_publisher_s_entries_of_one_queue_and_reason_are_one(client: Client, dead_letters: DeadLetterQueue) -> None:
    """RabbitMQ 3.10.8 on the wire, which keeps the first too."""
    queue = dead_letters.dying(max_length=0)
    written = [
        {"queue": where, "reason": reason, "count": count}
        for where, reason, count in [
            ("elsewhere", "expired", 3), (queue, "maxlen", 5), ("elsewhere", "rejected", 1), ("elsewhere", "expired", 7),
        ]
    ]  # fmt: skip
    deposit(client, b"x", key=queue, properties=with_headers({"x-death": written}))
    entries = counts(dead_letters.take_one())
    assert entries[0] == (queue, "maxlen", 6)
    assert sorted(entries[1:]) == [("elsewhere", "expired", 3), ("elsewhere", "rejected", 1)]
