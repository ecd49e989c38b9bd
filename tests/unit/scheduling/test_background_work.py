"""Long work in steps: how many steps each turn does, and that nothing is heard meanwhile."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from broker.entities.queues import queue_limits
from broker.entities.queues.ordered_queue import DELIVER_MESSAGES
from broker.entities.scheduling.background_work import PORTION_STEPS, BackgroundWork
from broker.entities.scheduling.timers import Timers
from broker.wire.field_tables import Table
from broker.wire.methods import BasicConsume, BasicRecover, BasicRecoverOk, ConnectionClose, ConnectionCloseOk
from harness.brokers.broker_core import START, Core, Reader
from harness.clients.session_client import SessionLayer
from harness.clients.shorthand import queue_declare

NOTHING: Table = {}


class Steps:
    """So many steps, which count themselves."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.done = 0

    def __iter__(self) -> Iterator[None]:
        while self.done < self.number:
            self.done += 1
            yield


def test_each_turn_does_one_portion_of_one_work() -> None:
    now = START
    timers = Timers(wake=lambda: None)
    steps = BackgroundWork(timers, lambda: now)
    first, second = Steps(PORTION_STEPS * 3), Steps(PORTION_STEPS * 2 + 1)
    pending = [steps.begin(iter(work)) for work in (first, second)]
    seen = [(first.done, second.done)]
    while not all(work.done for work in pending):
        now += 1
        timers.run(now)
        seen.append((first.done, second.done))
    steps = [sum(later) - sum(earlier) for earlier, later in itertools.pairwise(seen)]
    assert max(steps) == PORTION_STEPS
    assert (first.done, second.done) == (first.number, second.number)
    assert len(timers) == 0


def test_what_is_little_is_done_at_once() -> None:
    steps = BackgroundWork(Timers(wake=lambda: None), lambda: START)
    assert steps.begin(iter(Steps(PORTION_STEPS - 1))).done


def test_a_work_that_fails_is_over_and_holds_up_nobody(caplog: pytest.LogCaptureFixture) -> None:
    def failing() -> Iterator[None]:
        yield
        raise RuntimeError("no")

    steps = BackgroundWork(Timers(wake=lambda: None), lambda: START)
    assert steps.begin(failing()).done
    assert "background work failed; its remaining steps are skipped" in caplog.text


def test_finishing_does_all_that_is_left() -> None:
    steps, work = BackgroundWork(Timers(wake=lambda: None), lambda: START), Steps(PORTION_STEPS * 10)
    pending = steps.begin(iter(work))
    steps.finish()
    assert pending.done
    assert work.done == work.number


def test_exclusive_queues_go_some_at_a_time_and_close_ok_comes_when_none_is_left(sessions: SessionLayer) -> None:
    core = sessions.core
    client = sessions.connect()
    for number in range(PORTION_STEPS * 2):
        client.ask(queue_declare(f"q{number}", exclusive=True))
    client.send(ConnectionClose(200, "", 0, 0), channel=0)
    assert client.received(channel=0) == []
    counts = [len(core.vhost.queues)]
    while core.vhost.queues:
        core.advance(1)
        counts.append(len(core.vhost.queues))
    core.advance(1)
    assert max(before - after for before, after in itertools.pairwise(counts)) <= PORTION_STEPS
    assert client.received(channel=0) == [ConnectionCloseOk()]


def test_consumers_of_a_lost_connection_go_some_at_a_time_and_get_nothing(sessions: SessionLayer) -> None:
    core = sessions.core
    queue, client = core.queue(), sessions.connect()
    for number in range(PORTION_STEPS * 2):
        client.send(BasicConsume("q", f"c{number}", False, True, False, True, NOTHING))
    core.end_turn()
    client.drop()
    left = len(queue.consumers)
    assert PORTION_STEPS <= left < PORTION_STEPS * 2
    core.deposit(queue, b"for nobody")
    core.end_turn()
    assert queue.ready == 1
    while len(queue.consumers):
        core.advance(1)
        assert len(queue.consumers) >= left - PORTION_STEPS
        left = len(queue.consumers)
    assert queue.ready == 1


def test_a_queue_delivers_some_at_a_time(sessions: SessionLayer) -> None:
    core = sessions.core
    queue, reader = core.queue(), Reader()
    for number in range(DELIVER_MESSAGES * 2 + 1):
        core.deposit(queue, str(number).encode(), persistent=False)
    core.commit()
    reader.consume(queue)
    counts = [0]
    while core.broker.turn.queues:
        core.broker.turn.queues.clear()
        queue.deliver()
        counts.append(queue.unacked)
    assert counts[-1] == DELIVER_MESSAGES * 2 + 1
    assert max(after - before for before, after in itertools.pairwise(counts)) <= DELIVER_MESSAGES


def test_what_is_recovered_comes_back_in_its_order(sessions: SessionLayer) -> None:
    core = sessions.core
    queue, client = core.queue(), sessions.connect()
    bodies = [str(number).encode() for number in range(DELIVER_MESSAGES * 2)]
    for body in bodies:
        core.deposit(queue, body, persistent=False)
    client.send(BasicConsume("q", "c", False, False, False, True, NOTHING))
    assert [item.body for item in client.received()] == bodies
    client.send(BasicRecover(True))
    answer, *again = client.received()
    assert answer == BasicRecoverOk()
    assert [item.body for item in again] == bodies
    assert all(item.method.redelivered for item in again)


def test_a_message_falls_through_few_queues_in_a_turn(sessions: SessionLayer) -> None:
    core = sessions.core
    count = 40
    for number in range(count):
        core.queue(f"q{number}", max_length=0, dead_letter_exchange="", dead_letter_routing_key=f"q{number + 1}")
    end = core.queue(f"q{count}")
    core.deposit(core.queue_named("q0"), b"x")
    core.end_turn()
    places = [_place(core)]
    while not end.ready:
        core.advance(1)
        places.append(_place(core))
        assert sum(queue.ready for queue in core.vhost.queues.values()) == 1
    assert (
        max(later - earlier for earlier, later in itertools.pairwise(places)) <= queue_limits.DEAD_LETTER_DEPTH_MAX + 1
    )


def _place(core: Core) -> int:
    (name,) = (name for name, queue in core.vhost.queues.items() if queue.ready)
    return int(name[1:])
