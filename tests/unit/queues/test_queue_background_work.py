"""Ends and returns of messages in large numbers: some in each turn, in order, in batches of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from broker.entities.arguments.name_patterns import compiled
from broker.entities.arguments.policies import Policy
from broker.entities.queues.queue import Queue, QueueSpec
from broker.entities.queues.queue_background_work import RETURN_BYTES
from broker.entities.queues.ready_messages import MemoryWindow
from broker.entities.scheduling.background_work import MESSAGE_BYTES, PORTION_BYTES, PORTION_STEPS, STEP_COPIES
from broker.entities.vhosts.dead_lettering import COPY_HEADER_BYTES
from broker.wire.method import Method
from broker.wire.methods import (
    BasicCancel,
    BasicGetEmpty,
    ChannelClose,
    ChannelCloseOk,
    QueueDeclareOk,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
)
from harness.brokers.broker_core import Core, Reader, message
from harness.clients.session_client import SessionClient, SessionLayer
from harness.clients.shorthand import ack, consume, get, nack, queue_declare, queue_delete, reject
from storage.batch import SealedBatch

COUNT = 40
BODY_BYTES = 256 * 1024
BATCH_BYTES_MAX = 2 << 20
"""Largest batch of the core: 512 KiB of lazy writes, and one chunk or what was read with it."""

SMALL = message(b"x", persistent=False)

DEAD_LETTERS: dict[str, Any] = {"dead_letter_exchange": "", "dead_letter_routing_key": "dead"}


@pytest.fixture
def core(tmp_path: Path) -> Iterator[Core]:
    core = core_in(tmp_path)
    yield core
    core.close()


def core_in(directory: Path) -> Core:
    """A broker whose queues keep two of the large messages in memory."""
    return Core(directory / "messages", MemoryWindow(64, 2 * BODY_BYTES))


@pytest.fixture
def sessions(core: Core) -> Iterator[SessionLayer]:
    """Sessions on it."""
    layer = SessionLayer(core)
    yield layer
    layer.registry.check()


def body(number: int) -> bytes:
    return b"%03d" % number + bytes(BODY_BYTES - 3)


def numbers(bodies: list[bytes]) -> list[int]:
    return [int(found[:3]) for found in bodies]


def fill(core: Core, **arguments: Any) -> Queue:
    """A queue of large messages that are on disk, and one for its dead letters."""
    core.queue("dead")
    queue = core.queue("q", **arguments)
    for number in range(COUNT):
        core.deposit(queue, body(number))
        core.commit()
    return queue


def size_of(batch: SealedBatch) -> int:
    return sum(len(put[0].body) for lane in batch.lanes for _, put in lane.puts)


def work_off(core: Core) -> list[SealedBatch]:
    """Let turns pass, and the disk store a batch in each, until there is nothing to do; what was stored."""
    batches = []
    while (batch := core.seal()) is not None or core.broker.background_work.works:
        if batch is not None:
            batches.append(batch)
            core.land(batch)
        core.advance(1)
    return batches


def contents(core: Core, name: str) -> list[int]:
    """Take all messages of a queue, and return them."""
    queue, reader = core.queue_named(name), Reader()
    return numbers([found for _ in range(queue.ready) if (found := reader.get(queue, no_ack=True)) is not None])


def expire_at_a_start(core: Core) -> None:
    core.crash()
    core.clock.time += 10_000
    core.advance(2500)


def expire(core: Core) -> None:
    core.advance(10_000)


def lower_the_limit(core: Core) -> None:
    core.vhost.policy_application.put(Policy("p", compiled("^q$"), "all", {"max-length": 0}, 0), operator=False)
    core.end_turn()


MASSES: dict[str, tuple[Callable[[Core], None], dict[str, Any]]] = {
    "expired": (expire, {"message_ttl": 5000}),
    "expired while the broker was down": (expire_at_a_start, {"message_ttl": 5000}),
    "too many": (lower_the_limit, {}),
}


@pytest.mark.parametrize("kind", ["classic", "quorum"])
@pytest.mark.parametrize("mass", MASSES)
def test_masses_at_the_head_are_written_in_bounded_batches_and_in_order(core: Core, mass: str, kind: str) -> None:
    end, arguments = MASSES[mass]
    fill(core, queue_type=kind, **DEAD_LETTERS, **arguments)
    end(core)
    batches = work_off(core)
    assert max(map(size_of, batches)) <= BATCH_BYTES_MAX
    assert core.queue_named("q").messages == 0
    assert contents(core, "dead") == list(range(COUNT))


@pytest.mark.parametrize("mass", ["expired", "too many"])
def test_what_leaves_no_dead_letters_leaves_a_full_disk(core: Core, mass: str) -> None:
    end, arguments = MASSES[mass]
    queue = fill(core, **arguments)
    core.broker.batches.disk_full = True
    end(core)
    for _ in range(COUNT):
        core.commit()
        core.advance(1)
    assert queue.messages == 0


def test_a_start_gets_further_than_the_last_and_a_crash_doubles_nothing(core: Core) -> None:
    fill(core, message_ttl=5000, **DEAD_LETTERS)
    core.clock.time += 10_000
    left = [COUNT]
    while left[-1]:
        core.crash()
        core.advance(2500)
        core.commit()
        left.append(core.queue_named("q").messages)
        assert left[-1] < left[-2]
        assert core.queue_named("dead").messages == COUNT - left[-1]
    assert len(left) > 3
    assert contents(core, "dead") == list(range(COUNT))


def test_without_the_disk_nothing_piles_up(core: Core) -> None:
    fill(core, message_ttl=5000, **DEAD_LETTERS)
    expire(core)
    for _ in range(100):
        core.advance(10)
    waiting = [*core.broker.batches.sealed, core.broker.batches.current.seal()]
    assert sum(map(size_of, waiting)) <= 3 * BATCH_BYTES_MAX


def test_nothing_passes_an_expired_head(core: Core, sessions: SessionLayer) -> None:
    """Neither to a consumer nor to basic.get, which waits: the queue is not empty, and what is first is not given."""
    queue = fill(core, message_ttl=5000, **DEAD_LETTERS)
    core.clock.time += 10_000
    core.deposit(queue, b"998", b"999")
    client, reader = sessions.connect(channels=2), Reader()
    client.send(get("q"))
    reader.consume(queue, prefetch=1)
    client.send(get("q"), channel=2)
    core.end_turn()
    assert (client.received(), client.received(channel=2), reader.bodies) == ([], [], [])
    work_off(core)
    answers = [*client.received(), *client.received(channel=2)]
    assert len(answers) == 2
    got = [answer.body for answer in answers if answer != BasicGetEmpty()]
    assert sorted([*got, *reader.bodies]) == [b"998", b"999"]
    assert contents(core, "dead") == list(range(COUNT))


def test_rejections_in_line_for_the_disk_keep_their_dead_letter_exchange(core: Core, sessions: SessionLayer) -> None:
    """A policy that comes while the disk is full is for later ones."""
    queue, dead = core.queue(queue_type="classic"), core.queue("dead")
    toward = {"dead-letter-exchange": "", "dead-letter-routing-key": "dead"}
    core.vhost.policy_application.put(Policy("p", compiled("^q$"), "all", toward, 0), operator=False)
    core.deposit(queue, b"1", b"2")
    client = sessions.connect()
    client.send(consume("q", "t"))
    core.commit()
    core.broker.batches.disk_full = True
    client.send(reject(1, requeue=False))
    core.end_turn()
    core.vhost.policy_application.put(Policy("p", compiled("^q$"), "all", {"max-length": 9}, 0), operator=False)
    client.send(reject(2, requeue=False))
    core.broker.batches.disk_full = False
    work_off(core)
    assert (queue.messages, contents(core, "dead")) == (0, [1])
    assert dead.messages == 0


# Back from clients


def ack_all(tag: int) -> Method:
    return ack(tag, multiple=True)


def nack_all(tag: int) -> Method:
    return nack(tag, multiple=True, requeue=False)


def take_all(sessions: SessionLayer, queue: str = "q") -> SessionClient:
    """A client that holds all that was in a queue; the contents are on disk only."""
    client = sessions.connect()
    client.send(consume(queue, "t"))
    held: dict[int, Any] = {}
    while len(held) < COUNT:
        sessions.core.end_turn()
        client.received()
        sessions.core.commit()
        held = dict(client.connection.channels[1].deliveries.items())
    for entry in held.values():
        entry.release()
    return client


def test_what_a_quorum_queue_gets_back_is_written_in_bounded_batches_and_in_order(
    core: Core, sessions: SessionLayer
) -> None:
    queue = fill(core, queue_type="quorum")
    client = take_all(sessions)
    client.connection.channels[1].consumers["t"].prefetch = 1  # nothing more, after this
    client.send(nack(0, multiple=True))
    client.drop()
    batches = work_off(core)
    assert max(map(size_of, batches)) <= BATCH_BYTES_MAX
    assert (queue.unacked, queue.ready) == (0, COUNT)
    assert sorted(contents(core, "q")) == list(range(COUNT))


def test_dead_letters_in_line_outlast_a_purge_and_end_with_their_queue(core: Core, sessions: SessionLayer) -> None:
    queue = fill(core, **DEAD_LETTERS)
    client = take_all(sessions)
    client.send(nack(0, multiple=True, requeue=False))
    in_line = queue.unacked
    assert in_line > COUNT // 2
    other = sessions.connect()
    other.send(QueuePurge("q", False))
    core.commit()
    assert other.received() == [QueuePurgeOk(0)]
    assert queue.unacked > 0
    other.send(queue_delete("q"))
    core.commit()
    assert other.received() == [QueueDeleteOk(0)]
    assert queue.unacked == 0
    sent = core.queue_named("dead").messages
    work_off(core)
    assert core.queue_named("dead").messages == sent < COUNT


@pytest.mark.parametrize(
    "arguments",
    [
        {"queue_type": "classic"},
        pytest.param({"queue_type": "quorum"}, marks=pytest.mark.slow),
        pytest.param({"queue_type": "quorum", "delivery_limit": 3, **DEAD_LETTERS}, marks=pytest.mark.slow),
    ],
    ids=["classic", "quorum", "quorum with a delivery limit"],
)
def test_a_purge_drops_what_one_frame_has_given_back(
    core: Core, sessions: SessionLayer, arguments: dict[str, Any]
) -> None:
    """RabbitMQ deals with the whole frame first, so all of it is ready then."""
    queue, client = core.queue(**arguments), sessions.connect()
    count = PORTION_BYTES // RETURN_BYTES + 1000
    for _ in range(count):
        queue.publish(SMALL)
    client.send(consume("q", "t"))
    while queue.ready:
        core.end_turn()
    client.send(BasicCancel("t", True))
    client.send(nack(0, multiple=True))
    assert queue.unacked > 0, "the frame was dealt with in one turn: it is too small for this test"
    client.received()
    client.send(QueuePurge("q", False))
    work_off(core)
    assert client.received() == [QueuePurgeOk(count)]
    assert queue.messages == 0


@pytest.mark.slow
def test_what_a_channel_leaves_behind_goes_back_some_at_a_time(core: Core, sessions: SessionLayer) -> None:
    """Before all is back its queues deliver nothing, and close-ok is not sent; everything is in its place then."""
    names, each = ("a", "b"), PORTION_BYTES // RETURN_BYTES // 2
    client, readers = sessions.connect(), {name: Reader() for name in names}
    for name in names:
        queue = core.queue(name)
        queue.ready_messages.window = MemoryWindow(1 << 20, 1 << 30)
        for _ in range(each):
            queue.publish(SMALL)
    client.send(*map(consume, names))
    while any(core.queue_named(name).ready for name in names):
        core.end_turn()
    client.send(*(nack(tag) for tag in range(1, 2 * each, 16)))  # they come once more, as the last
    client.received()
    for name, reader in readers.items():
        reader.consume(core.queue_named(name), prefetch=0)
    client.send(ChannelClose(200, "", 0, 0))
    while not (said := client.received()):
        assert not any(reader.held for reader in readers.values())
        assert not client.connection.readable
        core.advance(1)
    assert said == [ChannelCloseOk()]
    for name, reader in readers.items():
        while core.queue_named(name).ready:
            core.end_turn()
        positions = [entry.position for entry in reader.held]
        assert len(positions) == each
        assert positions == sorted(positions)


def test_a_classic_queue_delivers_what_came_back_in_its_order(core: Core, sessions: SessionLayer) -> None:
    """However many that is: what is behind it is not delivered before all of it is back."""
    queue, count = core.queue(), 3 * PORTION_BYTES // MESSAGE_BYTES * 16
    queue.ready_messages.window = MemoryWindow(1 << 20, 1 << 30)
    for _ in range(count + 1):
        queue.publish(SMALL)
    reader = Reader()
    consumer = reader.consume(queue, prefetch=count)
    core.end_turn()
    while queue.unacked < count:
        core.end_turn()
    held, reader.held = reader.held, []
    consumer.prefetch = 1
    queue.requeue(held)
    consumer.settled(count)
    left = [count, queue.unacked]
    assert left[1] > 0
    while not reader.held:
        core.advance(1)
        left.append(queue.unacked)
    assert max(before - after for before, after in pairwise(left)) <= PORTION_BYTES // MESSAGE_BYTES * 16 * 1.2
    (first,) = reader.held
    assert first.position == min(entry.position for entry in held)


def test_a_large_transaction_takes_effect_over_turns_and_is_one_batch(core: Core, sessions: SessionLayer) -> None:
    count = PORTION_BYTES // MESSAGE_BYTES * 2
    queue = core.queue()
    client, other = sessions.connect(), sessions.connect()
    client.ask(TxSelect())
    for _ in range(count):
        client.publish(b"x", key="q", persistent=True)
    client.send(TxCommit())
    assert 0 < queue.ready < count
    assert core.seal() is None
    other.confirm()
    other.publish(b"y", key="q", persistent=True)
    assert core.seal() is None
    while (batch := core.seal()) is None:
        assert client.received() == []
        core.advance(1)
    assert sum(len(lane.puts) for lane in batch.lanes) == count + 1
    core.land(batch)
    assert client.received() == [TxCommitOk()]
    assert len(other.received()) == 1


@pytest.mark.parametrize("gone", [False, True], ids=["stays", "goes meanwhile"])
@pytest.mark.parametrize("method", [ack_all, nack_all], ids=["ack", "nack"])
def test_what_one_frame_settles_is_settled_some_at_a_time_before_what_follows(
    core: Core, sessions: SessionLayer, method: Callable[[int], Method], gone: bool
) -> None:
    queue, count = core.queue(), PORTION_BYTES // RETURN_BYTES + 4096
    client = sessions.connect()
    client.heeding = False
    client.send(consume("q", "t"))
    for _ in range(count // 1024 + 1):
        queue.publish_all([SMALL] * 1024)
        core.end_turn()
    client.heeding = True
    ledger = client.connection.channels[1].deliveries
    left = [queue.unacked]
    client.send(method(count), queue_declare("q", passive=True), method(count))
    assert ledger.get(count) is None
    if gone:
        client.drop()
    while core.broker.background_work.works:
        left.append(queue.unacked)
        if not gone and queue.unacked > len(ledger):
            assert client.received() == []
        core.commit()
        core.advance(1)
    left.append(queue.unacked)
    assert max(before - after for before, after in pairwise(left)) <= PORTION_BYTES // RETURN_BYTES + 1024
    assert queue.ready == left[0] - count
    if not gone:
        assert [type(found) for found in client.received()] == [QueueDeclareOk, ChannelClose]


# To very many queues

FAN, FANNED = 300, 16
"""Number of queues everything goes to, and number of messages that do."""


def publish_fanned(client: SessionClient, exchange: str, key: str = "", **properties: Any) -> None:
    for _ in range(FANNED):
        client.publish(b"x", exchange=exchange, key=key, persistent=True, **properties)


def fan_rejected(core: Core, client: SessionClient) -> None:
    client.send(nack(0, multiple=True, requeue=False))


def fan_given_back(core: Core, client: SessionClient) -> None:
    client.send(nack(0, multiple=True))


def fan_rejected_at_commit(core: Core, client: SessionClient) -> None:
    client.ask(TxSelect())
    client.send(nack(0, multiple=True, requeue=False))
    client.send(TxCommit())


def fan_committed(core: Core, client: SessionClient) -> None:
    client.ask(TxSelect())
    publish_fanned(client, "fan")
    client.send(TxCommit())


def fan_come_due(core: Core, client: SessionClient) -> None:
    later = core.exchange("later", "x-delayed-message", arguments={"x-delayed-type": "fanout"})
    core.bind(later, core.vhost.exchanges["fan"])
    publish_fanned(client, "later", headers={"x-delay": 100})
    core.advance(200)


FANS: dict[str, tuple[Callable[[Core, SessionClient], None], dict[str, Any]]] = {
    "rejected": (fan_rejected, {}),
    "rejected, quorum": (fan_rejected, {"queue_type": "quorum"}),
    "rejected, at least once": (
        fan_rejected,
        {"queue_type": "quorum", "dead_letter_strategy": "at-least-once", "overflow": "reject-publish"},
    ),
    "given back too often": (fan_given_back, {"queue_type": "quorum", "delivery_limit": 0}),
    "rejected in a transaction": (fan_rejected_at_commit, {}),
    "expired": (lambda core, _: expire(core), {"message_ttl": 5000}),
    "expired, quorum": (lambda core, _: expire(core), {"message_ttl": 5000, "queue_type": "quorum"}),
    "too many": (lambda core, _: lower_the_limit(core), {}),
    "published in a transaction": (fan_committed, {}),
    "delayed": (fan_come_due, {}),
}


@pytest.mark.parametrize("fan", FANS)
def test_what_goes_to_very_many_queues_goes_some_messages_at_a_time(
    core: Core, sessions: SessionLayer, fan: str
) -> None:
    act, arguments = FANS[fan]
    exchange, queues = core.exchange("fan", "fanout"), [core.queue(f"q{number}") for number in range(FAN)]
    for queue in queues:
        core.bind(exchange, queue)
    core.queue("q", dead_letter_exchange="fan", **arguments)
    client = sessions.connect()
    if act not in (fan_committed, fan_come_due):
        publish_fanned(client, "", "q")
        core.commit()
    if act in (fan_rejected, fan_given_back, fan_rejected_at_commit):
        client.send(consume("q", "t"))
        client.received()
    made = [0]
    act(core, client)
    while made[-1] < FAN * FANNED:
        made.append(sum(queue.ready for queue in queues))
        core.commit()
        core.advance(1)
    steps = [after - before for before, after in pairwise(made)]
    assert max(steps) <= PORTION_BYTES // MESSAGE_BYTES + FAN
    assert all(step % FAN == 0 for step in steps), "a message goes to all of its queues in one turn"
    assert core.queue_named("q").messages == 0


@pytest.mark.parametrize("end", [expire, lower_the_limit])
def test_dead_letters_that_tell_of_many_deaths_are_written_a_few_at_a_time(
    core: Core, end: Callable[[Core], None]
) -> None:
    """No two are alike, so each is written by itself, which takes as long as many copies."""
    dead, ttl = core.queue("dead"), {"message_ttl": 5000} if end is expire else {}
    queue = core.queue("q", **DEAD_LETTERS, **ttl)
    deaths = [{"queue": f"old {number}", "reason": "rejected", "count": 1} for number in range(60)]
    for number in range(COUNT):
        queue.publish(message(b"x", persistent=False, headers={"x-death": deaths, "number": number}))
    size, made = len(message(b"", headers={"x-death": deaths}).header), [0]
    end(core)
    while made[-1] < COUNT:
        made.append(dead.ready)
        core.end_turn()
        core.advance(1)
    steps = [after - before for before, after in pairwise(made)]
    copies = PORTION_BYTES // MESSAGE_BYTES + 3 * STEP_COPIES
    assert max(steps) <= copies * COPY_HEADER_BYTES // size < COUNT


@pytest.mark.slow
def test_very_many_acknowledgements_wait_for_the_disk_and_not_for_room_on_it(
    core: Core, sessions: SessionLayer
) -> None:
    queue, count = core.queue(), 40_960
    client = sessions.connect()
    client.heeding = False
    client.send(consume("q", "t"))
    while queue.unacked < count:
        queue.publish_all([message(b"x")] * 1024)
        core.commit()
    client.send(ack(0, multiple=True))
    for _ in range(10):
        core.advance(1)
    left = queue.unacked
    assert left > 0, "the open batch has a quarter of the lazy bytes"
    core.broker.batches.disk_full = True
    core.broker.background_work.disk_moved()
    for _ in range(10):
        core.advance(1)
    assert queue.unacked == 0


def test_a_virtual_host_goes_some_queues_at_a_time_and_is_gone_at_once(core: Core) -> None:
    vhost = core.broker.add_vhost("v")
    count = PORTION_STEPS * 3
    for number in range(count):
        vhost.declare_queue(QueueSpec(f"q{number}", False, False, False, {}), None)
    known = len(core.broker.queues_by_id)
    core.broker.remove_vhost("v")
    left = [known, len(core.broker.queues_by_id)]
    assert vhost.queues == {}
    while left[-1] > known - count:
        core.advance(1)
        left.append(len(core.broker.queues_by_id))
    assert len(left) > 3
    assert max(before - after for before, after in pairwise(left)) <= PORTION_STEPS
