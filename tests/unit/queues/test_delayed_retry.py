"""Delayed retry of quorum queues in virtual time and over a real store. Expected times are RabbitMQ 4.3.6's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from broker.entities.arguments.name_patterns import NamePattern
from broker.entities.arguments.personality import PERSONALITIES
from broker.entities.arguments.policies import Policy
from broker.entities.queues import due_messages
from broker.entities.queues.quorum import delayed_messages
from broker.entities.queues.quorum.quorum_entry import QuorumEntry
from broker.entities.queues.quorum.quorum_queue import QuorumQueue
from broker.wire.field_tables import to_python
from broker.wire.properties import decode_properties
from harness.brokers.broker_core import Core, Reader
from storage.offline.verify_messages import verify

STEP = 50


@pytest.fixture
def core(tmp_path: Path) -> Iterator[Core]:
    core = Core(tmp_path / "messages", personality=PERSONALITIES["4.3"])
    yield core
    core.commit()
    core.close()
    assert verify(tmp_path / "messages").problems == []


def quorum(core: Core, **arguments: Any) -> QuorumQueue:
    """Declare the queue q, or find it as it came back from a crash."""
    queue = core.vhost.queues.get("q") or core.queue("q", queue_type="quorum", **arguments)
    assert isinstance(queue, QuorumQueue)
    return queue


def delaying(core: Core, type_: str = "all", least: int = 500, **arguments: Any) -> QuorumQueue:
    return quorum(core, delayed_retry_type=type_, delayed_retry_min=least, **arguments)


def bodies(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


Back = Callable[[QuorumQueue, Sequence[Any]], None]


def rejected(queue: QuorumQueue, entries: Sequence[Any]) -> None:
    queue.requeue(entries, rejected=True)


def nacked(queue: QuorumQueue, entries: Sequence[Any]) -> None:
    queue.requeue(entries)


def abandoned(queue: QuorumQueue, entries: Sequence[Any]) -> None:
    queue.requeue(entries, abandoned=True)


WAYS: dict[str, Back] = {"rejected": rejected, "nacked": nacked, "abandoned": abandoned}


def send_back(queue: QuorumQueue, reader: Reader, back: Back = rejected, *, count: int = 1) -> list[bytes]:
    """Take messages and return them; their bodies."""
    found = [reader.get(queue) for _ in range(count)]
    held, reader.held = reader.held, []
    back(queue, held)
    return [body for body in found if body is not None]


def delay(core: Core, queue: QuorumQueue) -> int:
    """Let time pass until a message is ready; how long that took."""
    passed = 0
    while not queue.ready:
        core.advance(STEP)
        passed += STEP
        assert passed < 100_000, "it does not come back"
    return passed


def delays(core: Core, queue: QuorumQueue, *ways: Back) -> list[int]:
    """Return a message in each of these ways, and wait until it is ready; how long that took."""
    core.deposit(queue, b"m")
    reader, found = Reader(), []
    for back in ways:
        assert send_back(queue, reader, back) == [b"m"]
        found.append(delay(core, queue))
    return found


# Rows of the study


@pytest.mark.parametrize(
    ("arguments", "ways", "expected"),
    [
        (("all", 500, 1200), "rejected rejected rejected rejected", [500, 1000, 1200, 1200]),
        (("all", 500, 1200), "nacked nacked nacked", [500, 500, 500]),
        (("all", 500, 1200), "rejected nacked abandoned", [500, 500, 1000]),
        (("failed", 600, None), "rejected rejected abandoned", [600, 600, 600]),
        (("failed", 600, None), "nacked", [0]),
        (("returned", 600, None), "nacked", [600]),
        (("returned", 600, None), "rejected abandoned", [0, 0]),
        (("disabled", 600, None), "rejected", [0]),
        (("foo", 600, None), "rejected", [0]),
        ((None, 600, None), "rejected", [0]),
        (("all", None, None), "rejected", [0]),
        (("all", None, 600), "rejected", [0]),
        (("all", 0, 600), "rejected", [0]),
        (("all", "500", 600), "rejected", [0]),
    ],
    ids=str,
)
def test_delays(core: Core, arguments: tuple[Any, Any, Any], ways: str, expected: list[int]) -> None:
    names = ("delayed_retry_type", "delayed_retry_min", "delayed_retry_max")
    given = {name: value for name, value in zip(names, arguments, strict=True) if value is not None}
    assert delays(core, quorum(core, **given), *(WAYS[way] for way in ways.split())) == expected


@pytest.mark.parametrize(
    ("arguments", "policy", "expected"),
    [
        ({}, {"type": "all", "min": 300, "max": 400}, [300, 400]),
        ({"type": "disabled", "min": 500}, {"type": "all", "min": 300}, [300, 300]),
        ({"type": "all", "min": 200}, {"type": "disabled", "min": 300}, [0, 0]),
        ({"type": "all", "min": 200}, {"min": 300}, [200, 200]),
        ({"type": "all", "min": 300, "max": 900}, {"min": 200, "max": 350}, [200, 350]),
        ({"type": "all", "min": 200, "max": 250}, {"max": 900}, [200, 250]),
    ],
    ids=str,
)
def test_arguments_and_policies(
    core: Core, arguments: dict[str, Any], policy: dict[str, Any], expected: list[int]
) -> None:
    queue = quorum(core, **{f"delayed_retry_{name}": value for name, value in arguments.items()})
    definition = {f"delayed-retry-{name}": value for name, value in policy.items()}
    core.vhost.policy_application.put(Policy("p", NamePattern("^q$"), "queues", definition, 0), operator=False)
    assert delays(core, queue, rejected, rejected) == expected


def test_other_series_delay_nothing(tmp_path: Path) -> None:
    for series in ("3.13", "4.2"):
        core = Core(tmp_path / series, personality=PERSONALITIES[series])
        assert delays(core, delaying(core), rejected) == [0]
        core.close()


def test_a_delayed_message_counts_as_a_message_only(core: Core) -> None:
    """Others are delivered meanwhile; a purge drops and counts it; a deletion does not count it."""
    queue, reader = delaying(core), Reader()
    core.deposit(queue, *bodies(3))
    send_back(queue, reader, count=2)
    assert (queue.ready, queue.messages, queue.delayed_messages, queue.message_bytes) == (1, 3, 2, 3)
    assert reader.get(queue) == b"2"
    core.deposit(queue, b"new")
    assert queue.purge() == 3
    assert (queue.ready, queue.messages, queue.delayed_messages, queue.unacked) == (0, 1, 0, 1)
    core.advance(1000)
    assert queue.ready == 0
    core.deposit(queue, b"a", b"b")
    send_back(queue, reader, nacked, count=1)
    assert queue.delete() == 1


@pytest.mark.parametrize("crashed", [False, True])
def test_due_messages_are_before_all_but_earlier_returns(core: Core, crashed: bool) -> None:
    """They go in the order of their due times, and before higher priorities."""
    queue, reader = delaying(core, "failed"), Reader()
    core.deposit(queue, *bodies(4), priority=1)
    send_back(queue, reader)
    core.advance(100)
    send_back(queue, reader)
    core.deposit(queue, b"high", priority=31)
    if crashed:
        core.commit()
        core.crash()
        queue, reader = quorum(core), Reader()
        core.advance(1)
    assert reader.get(queue) == b"high"
    reader.requeue()
    core.advance(1000)
    assert queue.returned_messages == 3
    assert reader.drain(queue) == [b"high", b"0", b"1", b"2", b"3"]


def test_a_message_expires_when_it_is_due_and_not_before(core: Core) -> None:
    dead = core.queue("dead")
    to_dead = {"dead_letter_exchange": "", "dead_letter_routing_key": "dead"}
    queue, reader = delaying(core, least=1200, message_ttl=300, **to_dead), Reader()
    core.deposit(queue, b"m")
    send_back(queue, reader)
    core.advance(1150)
    assert (queue.messages, dead.ready) == (1, 0)
    core.advance(50)
    assert (queue.messages, reader.drain(dead)) == (0, [b"m"])


def test_a_message_that_is_due_and_not_expired_expires_later(core: Core) -> None:
    """Over a restart, too: the store has both times."""
    queue, reader = delaying(core, least=1000, message_ttl=3000), Reader()
    core.deposit(queue, b"m", b"n")
    send_back(queue, reader, count=2)
    core.restart()
    queue = quorum(core)
    core.advance(1000)
    assert queue.ready == 2
    core.advance(1999)
    assert queue.ready == 2
    core.advance(1)
    assert queue.ready == 0


def test_delayed_messages_count_for_the_length(core: Core) -> None:
    """As measured: one delayed, one ready, two more published; left are the delayed one and the last."""
    queue, reader = delaying(core, max_length=2), Reader()
    core.deposit(queue, b"a", b"b")
    send_back(queue, reader)
    core.deposit(queue, b"c", b"d")
    assert (queue.ready, queue.delayed_messages) == (1, 1)
    core.advance(500)
    assert reader.drain(queue) == [b"a", b"d"]


def test_a_length_that_delayed_messages_alone_exceed_drops_nothing(core: Core) -> None:
    """RabbitMQ 4.3.6 would look for one for ever."""
    queue, reader = delaying(core, max_length=3), Reader()
    core.deposit(queue, *bodies(3))
    send_back(queue, reader, count=3)
    policy = Policy("p", NamePattern("^q$"), "queues", {"max-length": 1}, 0)
    core.vhost.policy_application.put(policy, operator=False)
    assert (queue.ready, queue.delayed_messages) == (0, 3)


def test_the_delivery_limit_counts(core: Core) -> None:
    """Delivered at 0 and 0.3 s, and a dead letter at once after the second rejection."""
    dead = core.queue("dead")
    to_dead = {"dead_letter_exchange": "", "dead_letter_routing_key": "dead"}
    queue, reader = delaying(core, least=300, delivery_limit=1, **to_dead), Reader()
    core.deposit(queue, b"m")
    send_back(queue, reader)
    assert delay(core, queue) == 300
    send_back(queue, reader)
    assert (queue.messages, reader.drain(dead)) == (0, [b"m"])


# The store


def shown(entry: Any) -> dict[str, Any]:
    """Return the headers with which a message goes out."""
    return to_python(decode_properties(entry.message.header).headers or {})


def test_due_times_and_counts_survive_a_crash(core: Core) -> None:
    queue, reader = delaying(core, least=500, delayed_retry_max=5000), Reader()
    core.deposit(queue, b"first", b"second")
    for back in (nacked, rejected, rejected):
        send_back(queue, reader, back)
        core.advance(5000)
        core.commit()
        core.crash()
        queue, reader = quorum(core), Reader()
        core.advance(1)
    assert reader.get(queue) == b"first"
    (entry,) = reader.held
    assert shown(entry) == {"x-acquired-count": 3, "x-delivery-count": 2}
    reader.held.clear()
    rejected(queue, [entry])
    core.commit()
    core.clock.time += 700
    core.crash()
    queue = quorum(core)
    core.advance(1)
    assert (queue.delayed_messages, queue.ready, queue.messages) == (1, 1, 2)
    core.advance(798)
    assert queue.delayed_messages == 1
    core.advance(1)
    assert queue.delayed_messages == 0
    assert Reader().get(queue) == b"first"


def test_a_return_that_did_not_reach_the_disk_did_not_happen(core: Core) -> None:
    """The message is there once, and comes back as that of a closed channel: delayed from the start on."""
    queue, reader = delaying(core), Reader()
    core.deposit(queue, b"m")
    core.commit()
    assert reader.get(queue) == b"m"
    core.commit()
    rejected(queue, reader.held)
    core.crash()
    queue, reader = quorum(core), Reader()
    assert reader.get(queue) is None
    assert (queue.messages, queue.delayed_messages) == (1, 1)
    assert delay(core, queue) == 500
    assert reader.get(queue) == b"m"
    assert shown(reader.held[0]) == {"x-acquired-count": 1, "x-delivery-count": 1}


def test_what_was_out_when_the_process_died_is_delayed_unless_that_time_is_over(core: Core) -> None:
    queue, reader = delaying(core), Reader()
    core.deposit(queue, b"m", b"fresh")
    reader.get(queue)
    core.restart()
    queue, reader = quorum(core), Reader()
    core.advance(600)
    assert reader.drain(queue) == [b"m", b"fresh"]


@pytest.mark.parametrize("paged", [False, True])
def test_contents_beyond_the_window_are_on_disk_alone(core: Core, paged: bool) -> None:
    """The window is four messages. Counts and expiry are read back with them."""
    queue, reader = delaying(core, message_ttl=60_000), Reader()
    core.deposit(queue, *bodies(20))
    send_back(queue, reader, count=20)
    if paged:
        core.commit()
        assert len(queue.delayed._waiting.resident()) == 4
    core.advance(500)
    assert (queue.ready, queue.returned_messages, queue.ready_bytes) == (20, 20, 30)
    for number in range(20):
        assert reader.get(queue) == b"%d" % number
        entry = reader.held[-1]
        assert isinstance(entry, QuorumEntry)
        assert (entry.deliveries, entry.expires_at > 0) == (2, True)
    reader.ack()
    core.commit()
    assert core.store.lanes()[queue.store.queue_id][34].messages == 0


def test_what_became_ready_and_was_not_taken_is_ready_after_a_restart(core: Core) -> None:
    queue, reader = delaying(core), Reader()
    core.deposit(queue, *bodies(12))
    send_back(queue, reader, count=12)
    core.advance(500)
    assert [reader.get(queue) for _ in range(3)] == bodies(3)
    core.restart()
    queue, reader = quorum(core), Reader()
    core.advance(1)
    assert (queue.messages, queue.ready) == (12, 12)
    assert reader.drain(queue) == bodies(12)


def test_a_purge_during_the_reading_of_times(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(due_messages, "INDEX_MESSAGES", 2)
    queue, reader = delaying(core), Reader()
    core.deposit(queue, *bodies(6))
    send_back(queue, reader, count=6)
    core.restart()
    queue = quorum(core)
    assert (queue.messages, queue.delayed_messages, queue.message_bytes) == (6, 6, 6)
    assert queue.purge() == 6
    core.advance(1000)
    assert (queue.messages, queue.message_bytes) == (0, 0)
    core.restart()
    assert quorum(core).messages == 0


def test_many_become_ready_some_at_a_time(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delayed_messages, "DUE_AT_ONCE", 3)
    queue, reader = delaying(core), Reader()
    core.deposit(queue, *bodies(8))
    send_back(queue, reader, count=8)
    core.advance(500)
    found = [queue.ready]
    while queue.delayed_messages:
        core.advance(1)
        found.append(queue.ready)
    assert found == [3, 6, 8]
    assert reader.drain(queue) == bodies(8)


def test_a_deleted_queue_waits_for_nothing(core: Core) -> None:
    queue, reader = delaying(core), Reader()
    core.deposit(queue, *bodies(3))
    send_back(queue, reader, count=3)
    core.commit()
    core.vhost.delete_queue(queue)
    core.commit()
    core.advance(10_000)
    assert not core.store.lanes().get(queue.store.queue_id)
