"""The ledger of deliveries against a dictionary: tags given, struck out, put back by a rollback."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.entities.messages.message import Entry
from broker.entities.queues.consumers import Consumer
from broker.entities.queues.queue import Queue
from broker.session.channel.deliveries import CHUNK_BYTES, CHUNK_MESSAGES, DeliveryLedger
from broker.wire.amqp_errors import ChannelException
from harness.brokers.broker_core import Core, Reader, message


@pytest.fixture(scope="module")
def queues(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Queue]]:
    core = Core(tmp_path_factory.mktemp("ledger") / "messages")
    yield [core.queue("one"), core.queue("two")]
    core.close()


class Pair:
    """A ledger and what it must hold."""

    def __init__(self, queues: list[Queue]) -> None:
        self.queues = queues
        self.ledger = DeliveryLedger()
        self.model: dict[int, Entry] = {}
        self.taken: dict[int, Entry] = {}
        self.last = 0

    def add(self, number: int, *, consumed: bool) -> None:
        entry = Entry(self.queues[number % 2], number, message(b"x"), 1, 0)
        if consumed:
            entry.consumer = Consumer(
                entry.queue, Reader(), "t", no_ack=False, exclusive=False, prefetch=0, priority=0, arguments={}
            )
        self.last += 1
        assert self.ledger.add(entry) == self.last
        self.model[self.last] = entry

    def skip(self) -> None:
        self.last += 1
        assert self.ledger.skip() == self.last

    def take(self, tag: int, *, multiple: bool) -> None:
        wanted = {t: entry for t, entry in self.model.items() if (t <= tag or tag == 0 if multiple else t == tag)}
        if tag not in self.model and not (multiple and tag == 0):
            with pytest.raises(ChannelException, match=f"unknown delivery tag {tag}$") as refusal:
                self.ledger.take(tag, multiple=multiple)
            assert refusal.value.code == 406
            return
        taken = self.ledger.take(tag, multiple=multiple)
        assert list(taken.items()) == sorted(wanted.items()), "in the order of their tags"
        self.taken |= taken
        self.model = {t: entry for t, entry in self.model.items() if t not in wanted}

    def put_back(self) -> None:
        self.ledger.put_back(self.taken)
        self.model |= self.taken
        self.taken = {}

    def check(self) -> None:
        self.ledger.check()
        assert list(self.ledger.unacked.items()) == sorted(self.model.items())
        assert self.ledger.consumed == sum(entry.consumer is not None for entry in self.model.values())
        for queue in self.queues:
            outstanding = [entry for _, entry in sorted(self.model.items()) if entry.queue is queue]
            assert list(self.ledger.of_queue(queue)) == outstanding


actions = st.one_of(
    st.tuples(st.just("add"), st.integers(0, 9), st.booleans()),
    st.tuples(st.just("add"), st.integers(0, 9), st.booleans()),
    st.tuples(st.just("skip")),
    st.tuples(st.just("take"), st.integers(0, 25), st.booleans()),
    st.tuples(st.just("put back")),
)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(run=st.lists(actions, max_size=50))
def test_tags_against_a_dictionary(queues: list[Queue], run: list[tuple[str, int, bool]]) -> None:
    pair = Pair(queues)
    for action, *arguments in run:
        match action, arguments:
            case "add", [int(number), bool(consumed)]:
                pair.add(number, consumed=consumed)
            case "take", [int(tag), bool(multiple)]:
                pair.take(tag, multiple=multiple)
            case "skip", _:
                pair.skip()
            case _:
                pair.put_back()
        pair.check()


def test_contents_on_disk_are_let_go_after_a_while(tmp_path_factory: pytest.TempPathFactory) -> None:
    """However many are out, no more than two chunks of them keep their content; what is not on disk keeps it."""
    core = Core(tmp_path_factory.mktemp("release") / "messages")
    queue = core.queue()
    stored, unstored, ledger = Reader(), Reader(), DeliveryLedger()
    core.deposit(queue, *(b"%d" % number for number in range(3 * CHUNK_MESSAGES)))
    core.commit()
    core.deposit(queue, *(b"unstored %d" % number for number in range(2 * CHUNK_MESSAGES)))
    while len(stored.held) < 3 * CHUNK_MESSAGES:
        stored.get(queue)
    while unstored.get(queue) is not None:
        pass
    for entry in (*stored.held, *unstored.held):
        ledger.add(entry)
    assert all(entry.message is None for entry in stored.held)
    assert all(entry.message is not None for entry in unstored.held)
    core.close()


def test_large_contents_are_let_go_sooner(tmp_path_factory: pytest.TempPathFactory) -> None:
    core = Core(tmp_path_factory.mktemp("large") / "messages")
    queue, reader, ledger = core.queue(), Reader(), DeliveryLedger()
    core.deposit(queue, *[bytes(CHUNK_BYTES // 4)] * 40)
    core.commit()
    for _ in range(40):
        reader.get(queue)
        ledger.add(reader.held[-1])
    kept = [entry.size for entry in reader.held if entry.message is not None]
    assert sum(kept) <= 2 * CHUNK_BYTES
    core.close()


def test_contents_that_reach_the_disk_after_their_delivery_are_let_go_then(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    core = Core(tmp_path_factory.mktemp("late") / "messages")
    queue, reader, ledger = core.queue(), Reader(), DeliveryLedger()

    def deliver(count: int) -> None:
        core.deposit(queue, *[bytes(CHUNK_BYTES // 4)] * count)
        for _ in range(count):
            reader.get(queue)
            ledger.add(reader.held[-1])

    deliver(40)
    assert all(entry.message is not None for entry in reader.held), "nothing is on disk yet"
    core.commit()
    deliver(8)
    assert not any(entry.message for entry in reader.held[:40])
    core.close()
