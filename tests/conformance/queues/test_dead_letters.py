"""Dead letters: which messages become one, what is written into them, and where they go.

Everything was recorded from RabbitMQ 3.10.8 on the wire. The headers `x-last-death-*` are RabbitMQ 3.13's (its
documentation, Dead Letter Exchanges): Leveret writes them, the reference does not, and these tests look past them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.wire.field_tables import Field, from_python
from broker.wire.methods import (
    BasicAck,
    BasicGetOk,
    BasicNack,
    ConfirmSelect,
    ExchangeDelete,
    QueuePurge,
    TxCommit,
    TxSelect,
)
from broker.wire.properties import BasicProperties
from harness.clients.amqp_peer import Message
from harness.clients.contents import with_headers
from harness.clients.queue_steps import deposit, drain, drain_messages
from harness.clients.shorthand import (
    exchange_bind,
    exchange_declare,
    get,
    nack,
    queue_bind,
    queue_declare,
    queue_delete,
)
from harness.clients.wire_client import Client
from harness.waiting import eventually

Name = Callable[..., str]


class Graveyard:
    """A queue for dead letters, and queues whose messages end in it."""

    def __init__(self, client: Client, name: Name) -> None:
        self.client = client
        self.name = name
        self.queue = self.declare()

    def declare(self, **arguments: Any) -> str:
        """An exclusive queue; `max_length=3` is the argument x-max-length."""
        table = {"x-" + key.replace("_", "-"): value for key, value in arguments.items()}
        return str(self.client.ask(queue_declare(self.name(), exclusive=True, arguments=table)).queue)

    def dying(self, **arguments: Any) -> str:
        """A queue with this graveyard."""
        return self.declare(dead_letter_exchange="", dead_letter_routing_key=self.queue, **arguments)

    def reject(self, queue: str) -> None:
        """Take one message from a queue and reject it."""
        self.client.send(get(queue))
        message = self.client.expect_message(BasicGetOk)
        self.client.send(nack(message.method.delivery_tag, requeue=False))

    def letters(self, count: int, queue: str = "") -> list[Message]:
        """Await so many dead letters, and take them."""
        found: list[Message] = []
        eventually(
            lambda: found.extend(drain_messages(self.client, queue or self.queue)) or len(found) >= count, "letters"
        )
        assert len(found) == count
        return found

    def letter(self, queue: str = "") -> Message:
        """Await one dead letter."""
        (message,) = self.letters(1, queue)
        return message


@pytest.fixture
def graveyard(client: Client, name: Name) -> Graveyard:
    return Graveyard(client, name)


def headers(letter: Message) -> dict[str, Field]:
    """A letter's headers, in order, without those of later RabbitMQs."""
    found = letter.properties.headers or {}
    return {name: field for name, field in found.items() if not name.startswith("x-last-death-")}


def deaths(letter: Message) -> list[dict[str, Field]]:
    """The entries of x-death."""
    field = headers(letter)["x-death"]
    assert field.kind == "A"
    return [entry.value for entry in field.value]


def counts(letter: Message) -> list[tuple[str, str, int]]:
    """Queue, reason and count of each entry of x-death."""
    return [
        (entry["queue"].value.decode(), entry["reason"].value.decode(), entry["count"].value)
        for entry in deaths(letter)
    ]


def text(value: str) -> Field:
    return Field("S", value.encode())


ALL = BasicProperties(
    content_type="t",
    content_encoding="e",
    headers=from_python({"z": 1, "a": "b"}),
    delivery_mode=2,
    priority=3,
    correlation_id="c",
    reply_to="r",
    expiration="60000",
    message_id="m",
    timestamp=5,
    type="ty",
    user_id="guest",
    app_id="ap",
)


def test_a_rejected_message_in_full(client: Client, graveyard: Graveyard) -> None:
    """Every property stays but `expiration`, which goes into the death; headers come in alphabetical order."""
    queue = graveyard.dying()
    deposit(client, b"body", key=queue, properties=ALL)
    graveyard.reject(queue)
    letter = graveyard.letter()
    assert (letter.body, letter.method.exchange, letter.method.routing_key) == (b"body", "", graveyard.queue)
    assert letter.method.redelivered is False
    assert letter.properties._replace(headers=None) == ALL._replace(headers=None, expiration=None)
    (death,) = deaths(letter)
    assert headers(letter) == {
        "a": text("b"),
        "x-death": Field("A", [Field("F", death)]),
        "x-first-death-exchange": text(""),
        "x-first-death-queue": text(queue),
        "x-first-death-reason": text("rejected"),
        "z": Field("I", 1),
    }
    assert list(headers(letter)) == sorted(headers(letter))
    assert death.pop("time").kind == "T"
    assert list(death.items()) == [
        ("count", Field("l", 1)),
        ("reason", text("rejected")),
        ("queue", text(queue)),
        ("exchange", text("")),
        ("routing-keys", Field("A", [text(queue)])),
        ("original-expiration", text("60000")),
    ]


@pytest.mark.parametrize("reason", ["expired", "maxlen"])
def test_the_other_reasons(client: Client, graveyard: Graveyard, reason: str) -> None:
    limit: dict[str, int] = {"max_length": 0} if reason == "maxlen" else {"message_ttl": 1}
    queue = graveyard.dying(**limit)
    deposit(client, b"x", key=queue)
    assert counts(graveyard.letter()) == [(queue, reason, 1)]


def test_dying_again_of_the_same_counts_on(client: Client, graveyard: Graveyard) -> None:
    """One entry per queue and reason; it comes to the front, its fields in alphabetical order from the second death."""
    one = graveyard.declare()
    two = graveyard.declare(dead_letter_exchange="", dead_letter_routing_key=one)
    client.ask(queue_delete(one))
    client.ask(
        queue_declare(one, exclusive=True, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": two})
    )
    deposit(client, b"x", key=one)
    for queue in (one, two, one, two):
        eventually(lambda queue=queue: client.ask(queue_declare(queue, passive=True)).message_count, "the message")
        graveyard.reject(queue)
    letter = graveyard.letter(one)
    assert counts(letter) == [(two, "rejected", 2), (one, "rejected", 2)]
    assert list(deaths(letter)[0]) == ["count", "exchange", "queue", "reason", "routing-keys", "time"]
    assert headers(letter)["x-first-death-queue"] == text(one)


def test_several_at_once_keep_their_order(client: Client, graveyard: Graveyard) -> None:
    queue = graveyard.dying()
    deposit(client, b"1", b"2", b"3", key=queue)
    for _ in range(3):
        client.send(get(queue))
        client.expect_message(BasicGetOk)
    client.send(nack(3, multiple=True, requeue=False))
    assert [letter.body for letter in graveyard.letters(3)] == [b"1", b"2", b"3"]


@pytest.mark.parametrize(
    ("written", "entries", "first"),
    [("text", 1, False), ([], 1, False), ({"a": 1}, 1, False), ([{}], 2, False), (None, 1, True)],
    ids=["text", "empty", "table", "array of an empty table", "nothing"],
)
def test_what_a_publisher_wrote_into_x_death(
    client: Client, graveyard: Graveyard, written: object, entries: int, first: bool
) -> None:
    """What is no array is replaced. Whoever has an x-death has died before, whatever is in it."""
    queue = graveyard.dying(max_length=0)
    deposit(client, b"x", key=queue, properties=with_headers({} if written is None else {"x-death": written}))
    letter = graveyard.letter()
    assert len(deaths(letter)) == entries
    assert deaths(letter)[0]["queue"] == text(queue)
    assert ("x-first-death-queue" in headers(letter)) is first


# Which keys


def test_all_keys_of_the_message_count_again(client: Client, graveyard: Graveyard, name: Name) -> None:
    """Blind ones too, although nobody sees them: not in the headers, not among the routing keys of the death."""
    exchange = name()
    client.ask(exchange_declare(exchange, auto_delete=True))
    queue = graveyard.declare(dead_letter_exchange=exchange)
    bound = {key: graveyard.declare() for key in (queue, "open", "blind", "other")}
    for key, destination in bound.items():
        client.ask(queue_bind(destination, exchange, key))
    deposit(client, b"x", key=queue, properties=with_headers({"CC": ["open"], "BCC": ["blind"]}))
    graveyard.reject(queue)
    for key in (queue, "open", "blind"):
        letter = graveyard.letter(bound[key])
        assert list(headers(letter)) == [
            "CC",
            "x-death",
            "x-first-death-exchange",
            "x-first-death-queue",
            "x-first-death-reason",
        ]
        assert deaths(letter)[0]["routing-keys"] == Field("A", [text(queue), text("open")])
        assert letter.method.routing_key == queue
    assert drain(client, bound["other"]) == []


def test_a_key_of_the_queue_replaces_them_all(client: Client, graveyard: Graveyard, name: Name) -> None:
    """And the CC header goes."""
    exchange = name()
    client.ask(exchange_declare(exchange, auto_delete=True))
    queue = graveyard.declare(dead_letter_exchange=exchange, dead_letter_routing_key="new")
    bound = {key: graveyard.declare() for key in (queue, "open", "blind", "new")}
    for key, destination in bound.items():
        client.ask(queue_bind(destination, exchange, key))
    deposit(client, b"x", key=queue, properties=with_headers({"CC": ["open"], "BCC": ["blind"]}))
    graveyard.reject(queue)
    letter = graveyard.letter(bound["new"])
    assert "CC" not in headers(letter)
    assert deaths(letter)[0]["routing-keys"] == Field("A", [text(queue), text("open")])
    assert [drain(client, bound[key]) for key in (queue, "open", "blind")] == [[], [], []]


# Where to


def test_an_exchange_that_is_not_there_takes_them_away(client: Client, graveyard: Graveyard, name: Name) -> None:
    queue = graveyard.declare(max_length=1, dead_letter_exchange=name())
    deposit(client, b"1", b"2", key=queue)
    assert drain(client, queue) == [b"2"]


def test_an_exchange_may_go_and_come_back_as_another(client: Client, graveyard: Graveyard, name: Name) -> None:
    """It is looked for by its name each time."""
    exchange = name()
    queue = graveyard.declare(max_length=0, dead_letter_exchange=exchange)
    client.ask(exchange_declare(exchange, "fanout"))
    client.ask(queue_bind(graveyard.queue, exchange))
    deposit(client, b"1", key=queue)
    assert graveyard.letter().body == b"1"
    client.ask(ExchangeDelete(exchange, False, False))
    deposit(client, b"lost", key=queue)
    client.ask(exchange_declare(exchange, auto_delete=True))
    client.ask(queue_bind(graveyard.queue, exchange, queue))
    deposit(client, b"3", key=queue)
    assert graveyard.letter().body == b"3"


def test_an_alternate_exchange_takes_what_no_binding_does(client: Client, graveyard: Graveyard, name: Name) -> None:
    exchange, alternate = name(), name()
    client.ask(exchange_declare(alternate, "fanout", auto_delete=True))
    client.ask(queue_bind(graveyard.queue, alternate))
    client.ask(exchange_declare(exchange, arguments={"alternate-exchange": alternate}))
    deposit(client, b"x", key=graveyard.declare(max_length=0, dead_letter_exchange=exchange))
    assert graveyard.letter().method.exchange == exchange
    client.ask(ExchangeDelete(exchange, False, False))


def test_a_headers_exchange_sees_the_headers_of_the_letter(client: Client, graveyard: Graveyard, name: Name) -> None:
    """Those that dying has written as well."""
    exchange = name()
    client.ask(exchange_declare(exchange, "headers", auto_delete=True))
    queue = graveyard.declare(max_length=0, dead_letter_exchange=exchange)
    client.ask(queue_bind(graveyard.queue, exchange, arguments={"x-match": "all-with-x", "x-first-death-queue": queue}))
    own = graveyard.declare()
    client.ask(queue_bind(own, exchange, arguments={"x-match": "all", "k": "v"}))
    deposit(client, b"x", key=queue, properties=with_headers({"k": "v"}))
    assert graveyard.letter().body == graveyard.letter(own).body == b"x"


@pytest.mark.parametrize("internal", [False, True])
def test_letters_pass_from_exchange_to_exchange(
    client: Client, graveyard: Graveyard, name: Name, internal: bool
) -> None:
    """And an internal exchange takes them, unlike what clients publish."""
    first, second = name(), name()
    client.ask(exchange_declare(second, "topic", auto_delete=True))
    client.ask(exchange_declare(first, "fanout", internal=internal, auto_delete=True))
    client.ask(exchange_bind(second, first))
    queue = graveyard.declare(max_length=0, dead_letter_exchange=first)
    client.ask(queue_bind(graveyard.queue, second, "#"))
    deposit(client, b"x", key=queue)
    assert graveyard.letter().method.exchange == first


def test_a_full_graveyard_takes_no_more(client: Client, graveyard: Graveyard) -> None:
    """With overflow reject-publish the letter is gone; what lies there stays."""
    full = graveyard.declare(max_length=1, overflow="reject-publish")
    queue = graveyard.declare(max_length=0, dead_letter_exchange="", dead_letter_routing_key=full)
    deposit(client, b"1", b"2", key=queue)
    assert graveyard.letter(full).body == b"1"


def test_a_full_graveyard_may_have_a_graveyard(client: Client, graveyard: Graveyard) -> None:
    full = graveyard.dying(max_length=1, overflow="reject-publish-dlx")
    queue = graveyard.declare(max_length=0, dead_letter_exchange="", dead_letter_routing_key=full)
    deposit(client, b"1", b"2", key=queue)
    letter = graveyard.letter()
    assert (letter.body, counts(letter)) == (b"2", [(full, "maxlen", 1), (queue, "maxlen", 1)])
    assert drain(client, full) == [b"1"]


# Round and round


def test_a_circle_that_nobody_rejected_in_ends(client: Client, graveyard: Graveyard, name: Name) -> None:
    one, two = name(), name()
    for queue, other in ((one, two), (two, one)):
        arguments = {"x-message-ttl": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": other}
        client.ask(queue_declare(queue, exclusive=True, arguments=arguments))
    deposit(client, b"x", key=one)

    def left() -> int:
        return sum(int(client.ask(queue_declare(queue, passive=True)).message_count) for queue in (one, two))

    eventually(lambda: left() == 0, "the message to be gone")


@pytest.mark.parametrize("limit", [{"max_length": 0}, {"message_ttl": 0}])
def test_a_queue_is_not_its_own_graveyard_by_itself(
    client: Client, graveyard: Graveyard, name: Name, limit: Any
) -> None:
    queue = name()
    graveyard.name = lambda: queue
    graveyard.declare(dead_letter_exchange="", dead_letter_routing_key=queue, **limit)
    deposit(client, b"x", key=queue)
    assert drain(client, queue) == []


def test_a_circle_with_a_rejection_goes_on(client: Client, graveyard: Graveyard, name: Name) -> None:
    """The usual way to try again later."""
    work, later = name(), name()
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": later}
    client.ask(queue_declare(work, exclusive=True, arguments=arguments))
    arguments = {"x-message-ttl": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": work}
    client.ask(queue_declare(later, exclusive=True, arguments=arguments))
    deposit(client, b"x", key=work)
    for _ in range(3):
        eventually(lambda: client.ask(queue_declare(work, passive=True)).message_count, "the message to be back")
        graveyard.reject(work)
    letter = graveyard.letter(work)
    assert counts(letter) == [(later, "expired", 3), (work, "rejected", 3)]


# What is no death, and when


def test_purging_and_deleting_are_no_deaths(client: Client, graveyard: Graveyard) -> None:
    queue = graveyard.dying()
    deposit(client, b"1", key=queue)
    client.ask(QueuePurge(queue, False))
    deposit(client, b"2", key=queue)
    client.ask(queue_delete(queue))
    assert drain(client, graveyard.queue) == []


def test_a_rejection_waits_for_the_commit(client: Client, graveyard: Graveyard) -> None:
    queue = graveyard.dying()
    deposit(client, b"x", key=queue)
    client.open_channel(2)
    client.ask(TxSelect(), channel=2)
    client.send(get(queue), channel=2)
    client.expect_message(BasicGetOk, channel=2)
    client.send(nack(1, requeue=False), channel=2)
    assert drain(client, graveyard.queue) == []
    client.ask(TxCommit(), channel=2)
    assert graveyard.letter().body == b"x"


def test_the_confirm_of_what_dies_at_once(client: Client, graveyard: Graveyard) -> None:
    """Dropped from the head it was taken first, and is confirmed; refused it is not."""
    client.open_channel(2)
    client.ask(ConfirmSelect(False), channel=2)
    client.publish(b"1", key=graveyard.dying(max_length=0), channel=2)
    assert client.expect(BasicAck, channel=2).delivery_tag == 1
    client.publish(b"2", key=graveyard.dying(max_length=0, overflow="reject-publish-dlx"), channel=2)
    assert client.expect(BasicNack, channel=2).delivery_tag == 2
    assert [letter.body for letter in graveyard.letters(2)] == [b"1", b"2"]
