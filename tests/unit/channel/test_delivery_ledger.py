"""The delivery ledger, with so large a number of deliveries that most are packed, beside a dictionary that holds them
all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest

from broker.entities.messages.message import QueuedMessage
from broker.entities.queues.ready_messages import MemoryWindow
from broker.session.channel.delivery_tags import CHUNK_MESSAGES, RECENT, DeliveryLedger
from broker.wire.amqp_errors import ChannelException
from harness.brokers.broker_core import Core, Reader, message

COUNT = RECENT + 8 * CHUNK_MESSAGES
RUN = 50
"""Messages of one queue that go out before some of the next."""
KINDS: dict[str, Any] = {"classic": {}, "priorities": {"max_priority": 3}, "quorum": {"queue_type": "quorum"}}


class Facts(NamedTuple):
    """Facts of an entry, packed meanwhile or not."""

    kind: type[QueuedMessage]
    queue: object
    consumer: object
    position: int
    size: int
    expires_at: int
    level: int
    deliveries: int
    persistent: bool
    stored: bool
    redelivered: bool


def facts(entry: QueuedMessage) -> Facts:
    return Facts(type(entry), *(getattr(entry, name) for name in Facts._fields[1:]))


Out = tuple[DeliveryLedger, dict[int, Facts]]


@pytest.fixture
def out(tmp_path: Path) -> Iterator[Out]:
    with closing(Core(tmp_path / "messages", MemoryWindow(COUNT, 1 << 30))) as core:
        yield deliveries(core)


def deliveries(core: Core) -> Out:
    """Deliveries of three queues, some to a consumer, some transient; and what is known of each."""
    entries: list[list[QueuedMessage]] = []
    for name, arguments in KINDS.items():
        reader, queue = Reader(), core.queue(name, **arguments)
        for number in range(COUNT // len(KINDS)):
            body, expiration = bytes(number % 300), "9999999" if number % 3 else None
            queue.publish(message(body, persistent=number % 7 > 0, expiration=expiration, priority=number % 4))
        core.commit()
        if name == "quorum":
            reader.consume(queue)
            core.end_turn()
        while reader.get(queue) is not None:
            pass
        entries.append(reader.held)
    ledger, known = DeliveryLedger(), dict[int, Facts]()
    for start in range(0, COUNT, RUN):
        for of_queue in entries:
            run = of_queue[start : start + RUN]
            if run:
                known |= {ledger.last + number: facts(entry) for number, entry in enumerate(run, 1)}
                ledger.add_all(run, sum(entry.size for entry in run))
        ledger.skip(start // RUN % 2)
    assert sum(entry.message is None for _, entry in ledger.items()) > COUNT // 2, "few are packed"
    return ledger, known


def is_outstanding(ledger: DeliveryLedger, known: dict[int, Facts]) -> None:
    assert {tag: facts(entry) for tag, entry in ledger.items()} == known
    assert len(ledger) == len(known)
    ledger.check()


def walk(seed: int) -> None:
    """Settle and give back deliveries in any order, of a seed: for `make model-walks`."""
    with TemporaryDirectory() as directory:
        with closing(Core(Path(directory) / "messages", MemoryWindow(COUNT, 1 << 30))) as core:
            settle_all(deliveries(core), Random(seed))


def test_what_is_packed_comes_back_as_it_was(out: Out) -> None:
    settle_all(out, Random(0))


def settle_all(out: Out, chance: Random) -> None:
    ledger, known = out
    is_outstanding(ledger, known)
    while known:
        tags = list(known)
        at = chance.randrange(len(tags))
        act = chance.choice(("one", "each", "multiple", "multiple, undone", "one, undone", "unknown"))
        if act == "each":
            each = chance.sample(tags, chance.randint(1, len(tags)))[:700]
            struck: list[QueuedMessage] = []
            ledger.take_each(each, struck)
            assert [facts(entry) for entry in struck] == [known.pop(tag) for tag in each]
        elif act == "unknown":
            with pytest.raises(ChannelException):
                ledger.take_each([tags[at], tags[at]], [])
            del known[tags[at]]
            with pytest.raises(ChannelException):
                ledger.take(tags[at], multiple=bool(at % 2))
        else:
            upto = tags[: at // 4 + 1] if act.startswith("multiple") else [tags[at]]
            taken = ledger.take(upto[-1], multiple=len(upto) > 1)
            assert {tag: facts(entry) for tag, entry in taken.items()} == {tag: known[tag] for tag in upto}
            assert list(dict(taken.items())) == upto
            if act.endswith("undone"):
                ledger.put_back(taken.items())
                is_outstanding(ledger, known)
                continue
            expected = [known.pop(tag) for tag in upto]
            portions = iter(partial(taken.first, chance.randint(1, 2000)), [])
            assert [facts(entry) for portion in portions for entry in portion] == expected
            assert not taken
        is_outstanding(ledger, known)


def test_all_are_taken_with_one_frame(out: Out) -> None:
    ledger, known = out
    assert {tag: facts(entry) for tag, entry in ledger.take(0, multiple=True).items()} == known
    is_outstanding(ledger, {})
