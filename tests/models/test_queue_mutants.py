"""The queue's model is only worth what it finds: each of these faults, planted on purpose, must be found by a walk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from broker.entities.messages.death_header import DeadLetter
from broker.entities.messages.message import Entry, Message
from broker.entities.queues.ordered_queue import ClassicQueue, OrderedQueue
from broker.entities.queues.priority_queue import PriorityReadyMessages, PriorityStore
from broker.entities.queues.queue import Queue
from broker.entities.queues.queue_store import QueueStore
from broker.entities.queues.ready_messages import ReadyMessages
from storage.messages.message_store import MessageStore
from tests.models.test_queue_model import walk

Plant = Callable[[pytest.MonkeyPatch], None]

SEEDS = range(12)
"""Walks in which a fault must show itself at least once. A sound queue passes them all: see the model's own tests."""


def a_settlement_in_flight_is_lost(patch: pytest.MonkeyPatch) -> None:
    """The batch with the message is sealed and not yet stored; its acknowledgement is for the next one."""
    real = QueueStore.settle

    def settle(lane: QueueStore, entries: Sequence[Entry]) -> None:
        writes, before = lane._open(), len(lane._open().settled)
        real(lane, entries)
        in_flight = {entry.position for entry in entries if entry.position > entry.queue.stored_up_to}
        writes.settled[before:] = [position for position in writes.settled[before:] if position not in in_flight]

    patch.setattr(QueueStore, "settle", settle)


def what_comes_back_goes_to_the_end(patch: pytest.MonkeyPatch) -> None:
    def give_back(ready_messages: ReadyMessages, entries: Sequence[Entry]) -> None:
        for entry in entries:
            ready_messages.append(entry)

    patch.setattr(ReadyMessages, "give_back", give_back)


def a_delivery_is_not_remembered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(QueueStore, "delivered", lambda lane, position: None)


def a_purge_reaches_one_too_far(patch: pytest.MonkeyPatch) -> None:
    real = QueueStore.purge

    def purge(lane: QueueStore, floor: int, survivors: Iterable[Entry]) -> None:
        real(lane, floor + 1, survivors)

    patch.setattr(QueueStore, "purge", purge)


def a_purge_takes_what_is_out(patch: pytest.MonkeyPatch) -> None:
    real = QueueStore.purge
    patch.setattr(QueueStore, "purge", lambda lane, floor, survivors: real(lane, floor, ()))


def a_dead_letter_is_not_written(patch: pytest.MonkeyPatch) -> None:
    real = ClassicQueue.publish_all

    def publish_all(queue: ClassicQueue, messages: Sequence[Any]) -> bool:
        for message in messages:
            message.flags &= queue.name != "dl"
        return real(queue, messages)

    patch.setattr(ClassicQueue, "publish_all", publish_all)


def redelivered_is_forgotten_on_requeue(patch: pytest.MonkeyPatch) -> None:
    real = OrderedQueue.requeue

    def requeue(queue: OrderedQueue, entries: Sequence[Entry]) -> None:
        before = [entry.redelivered for entry in entries]
        real(queue, entries)
        for entry, flag in zip(entries, before, strict=True):
            entry.redelivered = flag

    patch.setattr(OrderedQueue, "requeue", requeue)


def the_tail_is_let_go_too_soon(patch: pytest.MonkeyPatch) -> None:
    real = ReadyMessages.append

    def append(ready_messages: ReadyMessages, entry: Entry) -> None:
        real(ready_messages, entry)
        ready_messages.stored(entry.position)

    patch.setattr(ReadyMessages, "append", append)


def a_read_back_skips_one(patch: pytest.MonkeyPatch) -> None:
    real = MessageStore.read

    def read(store: MessageStore, queue_id: int, lane: int, after: int, *limits: int) -> Any:
        return real(store, queue_id, lane, after + 1 if after else 0, *limits)

    patch.setattr(MessageStore, "read", read)


def a_settlement_is_not_counted(patch: pytest.MonkeyPatch) -> None:
    real = QueueStore.settle

    def settle(lane: QueueStore, entries: Sequence[Entry]) -> None:
        real(lane, entries)
        lane.state.messages += sum(entry.persistent for entry in entries)

    patch.setattr(QueueStore, "settle", settle)


def a_level_is_forgotten_on_disk(patch: pytest.MonkeyPatch) -> None:
    """What is read back counts as of no priority."""
    real = PriorityStore.read

    def read(lanes: PriorityStore, queue: Queue, number: int, *place: Any) -> list[Entry]:
        entries = real(lanes, queue, number, *place)
        for entry in entries:
            entry.level = 0
        return entries

    patch.setattr(PriorityStore, "read", read)


def what_comes_back_loses_its_priority(patch: pytest.MonkeyPatch) -> None:
    real = PriorityReadyMessages.give_back

    def give_back(ready_messages: PriorityReadyMessages, entries: Sequence[Entry]) -> None:
        for entry in entries:
            entry.level = 0
        real(ready_messages, entries)

    patch.setattr(PriorityReadyMessages, "give_back", give_back)


def a_delivery_counts_for_all_levels(patch: pytest.MonkeyPatch) -> None:
    """Positions count through all levels: what is below one of them need not have been delivered."""

    def delivered(lanes: PriorityStore, entries: Iterable[Entry]) -> None:
        for lane in lanes._lanes.values():
            lane.delivered(entries)

    patch.setattr(PriorityStore, "delivered", delivered)


def a_purge_reaches_the_lowest_level_only(patch: pytest.MonkeyPatch) -> None:
    def purge(lanes: PriorityStore, floor: int, survivors: Iterable[Entry]) -> None:
        lanes.lane(0).purge(floor, [entry for entry in survivors if not entry.level])

    patch.setattr(PriorityStore, "purge", purge)


def a_letter_has_no_priority(patch: pytest.MonkeyPatch) -> None:
    real = DeadLetter.of

    def of(letter: DeadLetter, dead: Message) -> Message:
        message = real(letter, dead)
        message.priority = 0
        return message

    patch.setattr(DeadLetter, "of", of)


def found(seed: int, *, priorities: bool) -> bool:
    try:
        walk(seed, 250, priorities=priorities)
    except AssertionError:
        return True
    return False


@pytest.mark.parametrize(
    "plant",
    [
        a_settlement_in_flight_is_lost,
        what_comes_back_goes_to_the_end,
        a_delivery_is_not_remembered,
        a_purge_reaches_one_too_far,
        a_purge_takes_what_is_out,
        a_dead_letter_is_not_written,
        redelivered_is_forgotten_on_requeue,
        the_tail_is_let_go_too_soon,
        a_read_back_skips_one,
        a_settlement_is_not_counted,
    ],
    ids=lambda plant: plant.__name__,
)
def test_the_model_notices(monkeypatch: pytest.MonkeyPatch, plant: Plant) -> None:
    plant(monkeypatch)
    assert any(found(seed, priorities=False) for seed in SEEDS)


@pytest.mark.parametrize(
    "plant",
    [
        a_settlement_in_flight_is_lost,
        what_comes_back_goes_to_the_end,
        the_tail_is_let_go_too_soon,
        a_level_is_forgotten_on_disk,
        what_comes_back_loses_its_priority,
        a_delivery_counts_for_all_levels,
        a_purge_reaches_the_lowest_level_only,
        a_letter_has_no_priority,
    ],
    ids=lambda plant: plant.__name__,
)
def test_the_model_with_priorities_notices(monkeypatch: pytest.MonkeyPatch, plant: Plant) -> None:
    plant(monkeypatch)
    assert any(found(seed, priorities=True) for seed in SEEDS)
