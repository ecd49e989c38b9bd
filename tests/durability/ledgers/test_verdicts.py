"""What the ledger demands of what is found: each verdict can be good, and can be bad."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any

import pytest

from broker.wire.field_tables import from_python
from broker.wire.method import Method
from broker.wire.methods import (
    BasicAck,
    BasicDeliver,
    BasicNack,
    BasicPublish,
    QueueDeclareOk,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
)
from broker.wire.properties import BasicProperties, encode_header
from harness.clients.amqp_peer import Message
from harness.clients.contents import PERSISTENT, TRANSIENT
from harness.clients.shorthand import ack, nack, queue_declare, queue_delete
from tests.durability.ledgers.broker_ledger import BrokerLedger, Recovered
from tests.durability.ledgers.conversation import Request, Said
from tests.durability.ledgers.oracle import Debt, Found, Kind, Owed, verdicts
from tests.durability.ledgers.topology import (
    CLIENTS,
    DEAD,
    LETTERS,
    LOG,
    QUORUM,
    READER,
    TX_A,
    TX_B,
    TX_BOTH,
    WORK,
    body_of,
    full,
    kept,
    purged,
)

A, B, C, KEPT = (number * CLIENTS for number in range(1, 5))
"""Numbers of messages."""


class Story:
    """One client's conversation with a broker, and the ledger that follows it."""

    def __init__(self) -> None:
        self.ledger = BrokerLedger()
        self._published = count(1)

    def asks(self, *methods: Any) -> None:
        for method in methods:
            self.ledger.follow(Said.of(0, True, method))

    def answers(self, *methods: Any) -> None:
        for method in methods:
            self.ledger.follow(Said.of(0, False, method))

    def publishes(self, queue: str, *numbers: int, exchange: str = "", properties: BasicProperties = PERSISTENT) -> int:
        """Publish messages; the tag of the last."""
        tags = [self._content(BasicPublish(exchange, queue, False, False), each, properties) for each in numbers]
        return tags[-1]

    def confirmed(self, queue: str, *numbers: int) -> None:
        """Publish messages and confirm all so far."""
        self.answers(BasicAck(self.publishes(queue, *numbers), True))

    def _content(self, method: Method, number: int, properties: BasicProperties) -> int:
        self.asks(_message(method, number, properties))
        return next(self._published)

    def delivers(self, consumer: str, *numbers: int) -> None:
        """Deliver messages under tags from 1 on."""
        for tag, number in enumerate(numbers, 1):
            self.answers(_message(BasicDeliver(consumer, tag, False, "", ""), number, PERSISTENT))

    def proves(self) -> None:
        """The confirm of a message that nobody consumes: all that was said before is on disk."""
        self.confirmed(kept(0), KEPT)

    def dies(self) -> None:
        """The broker starts again."""
        self.ledger.begin_life()
        self._published = count(1)

    def problems(
        self, held: Mapping[str, Iterable[int]], counts: Mapping[int, int] = {}, facts: Mapping[Any, Any] = {}
    ) -> str:
        """What is wrong when this is found."""
        found = Recovered({name: list(numbers) for name, numbers in held.items()}, dict(counts), dict(facts))
        return "; ".join(self.ledger.problems(found))


def _message(method: Method, number: int, properties: BasicProperties) -> Message:
    body = body_of(number, 20)
    return Message(method, encode_header(len(body), properties), body)


@pytest.fixture
def story() -> Story:
    return Story()


def test_confirmed_is_there_once_and_in_order(story: Story) -> None:
    story.confirmed(WORK, A, B)
    story.publishes(WORK, C)
    assert not story.problems({WORK: (A, B)})
    assert not story.problems({WORK: (A, B, C)})
    assert "lost" in story.problems({WORK: (B,)})
    assert "is there 2 times" in story.problems({WORK: (A, A, B)})
    assert "out of order" in story.problems({WORK: (B, A)})
    assert "None" in story.problems({WORK: (A, B), DEAD: (A,)})


def test_transient_and_refused_are_not_there(story: Story) -> None:
    story.publishes(WORK, A, properties=TRANSIENT)
    story.answers(BasicNack(story.publishes(full(0), B), False, False))
    assert not story.problems({})
    assert "transient" in story.problems({WORK: (A,)})
    assert "transient" in story.problems({full(0): (B,)})


def test_only_a_full_queue_refuses(story: Story) -> None:
    tag = story.publishes(WORK, A)
    with pytest.raises(AssertionError, match="work has refused"):
        story.answers(BasicNack(tag, False, False))


def test_the_quorum_queue_refuses_only_under_a_policy(story: Story) -> None:
    with pytest.raises(AssertionError, match="quorum has refused"):
        story.answers(BasicNack(story.publishes(QUORUM, A), False, False))
    policy = {"pattern": "^q", "definition": {"max-length": 1}, "priority": 0}
    story.asks(Request("set_policy", {"vhost": "/", "name": "limits", **policy}))
    story.answers(BasicNack(story.publishes(QUORUM, B), False, False))


def test_what_was_acknowledged_is_gone_when_that_is_on_disk(story: Story) -> None:
    story.confirmed(WORK, A, B)
    story.delivers(WORK, A)
    story.asks(ack(1))
    assert not story.problems({WORK: (A, B)})
    story.proves()
    assert not story.problems({WORK: (B,), kept(0): (KEPT,)})
    assert "left" in story.problems({WORK: (A, B), kept(0): (KEPT,)})


def test_an_answered_purge_is_on_disk(story: Story) -> None:
    story.confirmed(purged(0), A)
    story.asks(QueuePurge(purged(0), False))
    assert not story.problems({purged(0): (A,)})
    story.answers(QueuePurgeOk(1))
    assert "left" in story.problems({purged(0): (A,)})


@pytest.mark.parametrize("later", [False, True])
def test_a_dead_letter_is_in_one_place(story: Story, later: bool) -> None:
    """Also when the broker has started again, and nobody has taken the message since."""
    story.confirmed(WORK, A)
    story.delivers(WORK, A)
    story.asks(nack(1, requeue=False))
    if later:
        story.dies()
    assert not story.problems({WORK: (A,)})
    assert not story.problems({DEAD: (A,)})
    assert "is there 2 times" in story.problems({WORK: (A,), DEAD: (A,)})
    assert "has lost" in story.problems({})


def test_a_dead_letter_that_is_on_disk_has_left_its_queue(story: Story) -> None:
    story.confirmed(QUORUM, A)
    story.delivers(QUORUM, A)
    story.asks(nack(1, requeue=False))
    story.proves()
    assert not story.problems({LETTERS: (A,), kept(0): (KEPT,)})
    assert "left" in story.problems({QUORUM: (A,), kept(0): (KEPT,)})


@pytest.mark.parametrize("later", [False, True])
def test_a_transaction_is_whole(story: Story, later: bool) -> None:
    """Also when the broker has started again: nobody takes anything from these queues."""
    story.asks(TxSelect())
    story.publishes("", A, exchange=TX_BOTH)
    story.asks(TxCommit())
    if later:
        story.dies()
    assert not story.problems({})
    assert not story.problems({TX_A: (A,), TX_B: (A,)})
    assert "half done" in story.problems({TX_A: (A,)})


def test_a_transaction_is_there_when_that_was_answered_and_not_before_it_was_asked_for(story: Story) -> None:
    story.asks(TxSelect())
    story.publishes("", A, exchange=TX_BOTH)
    assert "not committed" in story.problems({TX_A: (A,), TX_B: (A,)})
    story.asks(TxCommit())
    story.answers(TxCommitOk())
    assert "lost" in story.problems({})


def test_an_offset_is_its_messages_for_good(story: Story) -> None:
    story.publishes(LOG, A, B)
    seen = PERSISTENT._replace(headers=from_python({"x-stream-offset": 0}))
    story.answers(_message(BasicDeliver(READER, 1, False, "", ""), A, seen))
    assert not story.problems({LOG: (A, B)})
    assert "has not" in story.problems({LOG: (B,)})
    with pytest.raises(AssertionError, match="offset 0"):
        story.answers(_message(BasicDeliver(READER, 2, False, "", ""), B, seen))


def test_deliveries_are_counted(story: Story) -> None:
    story.confirmed(QUORUM, A)
    story.delivers(QUORUM, A)
    assert not story.problems({QUORUM: (A,)}, {A: 0})
    assert "handed out 0 to 1" in story.problems({QUORUM: (A,)}, {A: 2})
    story.proves()
    assert "handed out 1 to 1" in story.problems({QUORUM: (A,), kept(0): (KEPT,)}, {A: 0})


def test_definitions_are_as_last_answered_or_as_asked_for_since(story: Story) -> None:
    there = {("queue", "q"): True}
    story.asks(queue_declare("q", durable=True))
    assert not story.problems({}, facts={})
    story.answers(QueueDeclareOk("q", 0, 0))
    assert "queue q is None" in story.problems({}, facts={})
    story.asks(queue_delete("q"))
    assert not story.problems({}, facts={})
    assert not story.problems({}, facts=there)
    story.answers(QueueDeleteOk(0))
    assert "queue q is True" in story.problems({}, facts=there)


def test_each_kind_of_verdict_of_the_oracle() -> None:
    """A copy may be in one of two queues, and says that it was delivered if it is in the second."""
    copy = Owed(1, frozenset(("here", "there")), True, {"there": True})
    debt = Debt([copy, Owed(2, frozenset(("here",)), False)], order=lambda queue, number: ("", number))

    def kinds(**held: list[Found]) -> list[Kind]:
        return [verdict.kind for verdict in verdicts(debt, held)]

    assert kinds(here=[Found(1, False), Found(2)]) == kinds(here=[Found(1, True)]) == []
    assert kinds(there=[Found(1, True)]) == kinds(there=[Found(1)]) == []
    assert kinds(there=[Found(1, False)]) == [Kind.WRONG_FLAG]
    assert kinds(here=[Found(2)]) == [Kind.LOST]
    assert kinds(here=[Found(1)], there=[Found(1)]) == [Kind.TWICE]
    assert kinds(here=[Found(2), Found(1)]) == [Kind.OUT_OF_ORDER]
    assert kinds(here=[Found(1)], there=[Found(2)]) == [Kind.NOT_OWED]
