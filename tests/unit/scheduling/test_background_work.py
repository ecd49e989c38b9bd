"""Long work in steps: how many steps each turn does, and that nothing is heard meanwhile."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from math import inf

import pytest

from broker.entities.queues.ordered_queue import DELIVER_MESSAGES
from broker.entities.queues.queue_limits import DEAD_LETTER_DEPTH_MAX
from broker.entities.scheduling.background_work import PORTION_STEPS, BackgroundWork
from broker.entities.scheduling.timers import Timers
from broker.testing.controlled_clock import ControlledClock
from broker.wire.methods import BasicRecover, BasicRecoverOk, ConnectionClose, ConnectionCloseOk
from harness.brokers.broker_core import START, Reader, message
from harness.clients.session_client import SessionLayer
from harness.clients.shorthand import consume, queue_declare


class Steps:
    """Steps of background work, which count themselves."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.done = 0

    def __iter__(self) -> Iterator[None]:
        while self.done < self.number:
            self.done += 1
            yield


@pytest.fixture
def timers() -> Timers:
    return Timers(wake=lambda: None)


def largest_step(counts: list[int]) -> int:
    """By how much a count has changed at most from one turn to the next."""
    return max(abs(after - before) for before, after in itertools.pairwise(counts))


def test_what_is_little_is_done_at_once_and_so_is_all_at_the_end(timers: Timers) -> None:
    background, work = BackgroundWork(timers, lambda: START), Steps(PORTION_STEPS * 10)
    assert background.begin(iter(Steps(PORTION_STEPS - 1))).done
    pending = background.begin(iter(work))
    assert not pending.done
    background.finish()
    assert pending.done
    assert work.done == work.number


def test_it_goes_on_while_a_test_has_stopped_the_clock(timers: Timers) -> None:
    """Also if its next portion was to come a millisecond after the moment of the order."""
    clock, work = ControlledClock(), Steps(PORTION_STEPS * 10)
    background = BackgroundWork(timers, clock.soon)
    pending = background.begin(iter(work))
    clock.stop()
    timers.run(clock.now())
    assert pending.done
    assert clock.seconds_until(clock.now() + 1) == inf


def test_a_work_that_fails_is_over_and_holds_up_nobody(timers: Timers, caplog: pytest.LogCaptureFixture) -> None:
    def failing() -> Iterator[None]:
        yield
        raise RuntimeError("no")

    assert BackgroundWork(timers, lambda: START).begin(failing()).done
    assert "background work failed; its remaining steps are skipped" in caplog.text


def test_exclusive_queues_go_some_at_a_time_and_close_ok_comes_when_none_is_left(sessions: SessionLayer) -> None:
    core = sessions.core
    client = sessions.connect()
    client.send(*(queue_declare(f"q{n}", exclusive=True, no_wait=True) for n in range(PORTION_STEPS * 2)))
    client.send(ConnectionClose(200, "", 0, 0), channel=0)
    assert client.received(channel=0) == []
    counts = [len(core.vhost.queues)]
    while core.vhost.queues:
        core.advance(1)
        counts.append(len(core.vhost.queues))
    core.advance(1)
    assert largest_step(counts) <= PORTION_STEPS
    assert client.received(channel=0) == [ConnectionCloseOk()]


def test_consumers_of_a_lost_connection_go_some_at_a_time_and_get_nothing(sessions: SessionLayer) -> None:
    core = sessions.core
    queue, client = core.queue(), sessions.connect()
    client.send(*(consume("q", f"c{n}", no_ack=True, no_wait=True) for n in range(PORTION_STEPS * 2)))
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
    """Recovered messages come back in their order, in any number."""
    core = sessions.core
    queue, client = core.queue(), sessions.connect()
    bodies = [str(number).encode() for number in range(DELIVER_MESSAGES * 2 + 1)]
    for body in bodies:
        queue.publish(message(body, persistent=False))
    core.end_turn()
    reader = Reader()
    consumer = reader.consume(queue)
    counts = [0]
    while core.broker.turn.queues:
        core.broker.turn.queues.clear()
        queue.deliver()
        counts.append(queue.unacked)
    assert counts[-1] == len(bodies)
    assert largest_step(counts) <= DELIVER_MESSAGES
    queue.consumers.remove(consumer)
    reader.requeue()
    client.send(consume("q", "c", no_wait=True))
    assert [item.body for item in client.received()] == bodies
    client.send(BasicRecover(True))
    answer, *again = client.received()
    assert answer == BasicRecoverOk()
    assert [(item.body, item.method.redelivered) for item in again] == [(body, True) for body in bodies]


def test_a_message_falls_through_few_queues_in_a_turn(sessions: SessionLayer) -> None:
    core, count = sessions.core, 40
    for number in range(count):
        core.queue(f"q{number}", max_length=0, dead_letter_exchange="", dead_letter_routing_key=f"q{number + 1}")
    core.queue(f"q{count}")
    core.deposit(core.queue_named("q0"), b"x")
    places = [0]
    while places[-1] < count:
        (name,) = (name for name, queue in core.vhost.queues.items() if queue.ready)
        places.append(int(name[1:]))
        core.advance(1)
    assert largest_step(places) <= DEAD_LETTER_DEPTH_MAX + 1
