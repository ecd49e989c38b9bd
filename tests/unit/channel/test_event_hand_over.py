"""Events are handed over, so that a kill does not cost them, before what they say is on disk or known to a client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from broker.entities.queues.events.event_recording import CONFIRM, PUBLISH, ROUTE, Recorder
from broker.entities.scheduling.turn import Turn
from broker.entities.statistics.counters import ChannelCounters
from broker.session.channel.channel_recording import ChannelRecorder, ConfirmRecorder
from broker.session.channel.confirms import ConfirmLedger
from harness.brokers.broker_core import Core, message
from harness.clients.amqp_peer import publish_frames
from harness.clients.session_client import SessionLayer
from harness.clients.shorthand import queue_bind


class HandedOver:
    """The kinds of records in each part that was handed over, and how many events in all."""

    def __init__(self) -> None:
        self.parts: list[list[int]] = []
        self.records: list[Any] = []
        self.last = 0
        self.recorder = Recorder(1, self._take, lambda: None)

    def _take(self, records: list[Any], first: int, events: int) -> None:
        self.parts.append([record[0] for record in records])
        self.records += records
        self.last = first + events - 1


class Publisher:
    """A channel in confirm mode, of a client that wants to know what was handed over when its confirm is sent."""

    def __init__(self, handed_over: HandedOver, turn: Turn) -> None:
        self._handed_over = handed_over
        self._turn = turn
        self._events = ChannelRecorder(handed_over.recorder, "/", "peer", 1, stamps=False)
        recorder = ConfirmRecorder(self._events, turn)
        self.ledger = ConfirmLedger(1, ChannelCounters(), lambda _ledger: turn.outbound.append(self), recorder)
        self.parts: list[list[int]] = []

    def publish(self, batch: int) -> None:
        self._events.published([message(b"x")], 1, returned=False, in_transaction=False)
        self.ledger.wait_for(batch)

    def flush(self) -> None:
        assert self.ledger.frames()
        self.parts = list(self._handed_over.parts)


def test_a_batch_names_no_event_that_was_not_handed_over(tmp_path: Path) -> None:
    handed_over = HandedOver()
    core = Core(tmp_path, recorder=handed_over.recorder)
    core.deposit(core.queue(), b"1", b"2")
    batch = core.seal()
    assert batch is not None
    assert 0 < batch.last_event <= handed_over.last
    assert {PUBLISH, ROUTE} <= set(handed_over.parts[0])
    core.land(batch)
    core.close()


def test_the_confirms_of_a_turn_are_handed_over_at_once_before_the_first_is_sent() -> None:
    handed_over, turn = HandedOver(), Turn()
    publishers = [Publisher(handed_over, turn) for _ in range(3)]
    for publisher in publishers:
        publisher.publish(1)
    for publisher in publishers:
        publisher.ledger.stored(1)
    turn.end()
    expected = [[PUBLISH, PUBLISH, PUBLISH, CONFIRM, CONFIRM, CONFIRM]]
    assert [publisher.parts for publisher in publishers] == [expected] * 3


def test_what_is_sent_in_the_midst_of_a_turn_is_handed_over_too() -> None:
    """Nothing is recorded of a channel that has ended."""
    handed_over, turn = HandedOver(), Turn()
    early, ended = Publisher(handed_over, turn), Publisher(handed_over, turn)
    for publisher in (early, ended):
        publisher.publish(1)
        publisher.ledger.stored(1)
    ended.ledger.end()
    early.flush()
    assert early.parts == [[PUBLISH, PUBLISH, CONFIRM]]
    turn.outbound.clear()
    turn.end()
    assert handed_over.parts == early.parts


def test_publishes_of_one_batch_are_recorded_with_their_own_routing_keys(tmp_path: Path) -> None:
    handed_over = HandedOver()
    core = Core(tmp_path, recorder=handed_over.recorder)
    core.queue("q")
    client = SessionLayer(core).connect()
    client.ask(queue_bind("q", "amq.topic", "#"))
    client.say(b"".join(publish_frames(b"x", exchange="amq.topic", key=key) for key in "aab"))
    handed_over.recorder.flush()
    published = [(record[5], record[6], record[8]) for record in handed_over.records if record[0] == PUBLISH]
    first = published[0][0]
    assert published == [(first, b"\x09amq.topic\x01a", [1, 1]), (first + 2, b"\x09amq.topic\x01b", [1])]
    core.close()
