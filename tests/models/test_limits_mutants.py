"""The model of arguments is only worth what it finds: each of these faults must be found by a walk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.entities.messages.death_header import DeadLetter
from broker.entities.messages.message import Entry, Message
from broker.entities.queues.ordered_queue import ClassicQueue, OrderedQueue
from broker.entities.queues.priority_queue import PriorityReadyMessages
from broker.entities.queues.queue_limits import Limits
from broker.entities.queues.ready_messages import ReadyMessages
from tests.models.test_limits_model import walk

Plant = Callable[[pytest.MonkeyPatch], None]

SEEDS = range(60)
"""The walks that a sound queue passes: see the model's own tests."""


def what_comes_back_is_not_counted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Limits, "make_room_for_returned", lambda limits: None)


def nobody_gets_what_expires_this_moment(patch: pytest.MonkeyPatch) -> None:
    real = Limits.expire
    patch.setattr(Limits, "expire", lambda limits, strictly=False: real(limits))


def a_run_does_not_mind_the_time(patch: pytest.MonkeyPatch) -> None:
    def take(queue: OrderedQueue, limit: int) -> list[Entry]:
        taken: list[Entry] = []
        while len(taken) < limit and (entry := queue.pop()) is not None:
            taken.append(entry)
        return taken

    patch.setattr(OrderedQueue, "take", take)


def nobody_watches_what_comes_to_the_head(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Limits, "watch", lambda limits: None)


def the_newest_is_dropped(patch: pytest.MonkeyPatch) -> None:
    real = ClassicQueue.publish

    def publish(queue: ClassicQueue, message: Message) -> bool:
        if queue.limits.on_length and queue.limits.over(1, len(message.body)):
            queue.turn_away(message, "maxlen")
            return False
        return real(queue, message)

    patch.setattr(ClassicQueue, "publish", publish)


def a_full_queue_is_not_shortened_at_a_start(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Limits, "resume", lambda limits: limits._queue.touch())


def one_more_than_may_be(patch: pytest.MonkeyPatch) -> None:
    real = Limits.over
    patch.setattr(Limits, "over", lambda limits, messages=0, size_bytes=0: real(limits, messages - 1, size_bytes))


def the_publishers_time_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    real = Limits.expires_at

    def expires_at(limits: Limits, message: Message) -> int:
        if limits.on_time:
            message.expiration = None
        return real(limits, message)

    patch.setattr(Limits, "expires_at", expires_at)


def a_letter_dies_again(patch: pytest.MonkeyPatch) -> None:
    real = DeadLetter.of

    def of(letter: DeadLetter, dead: Message) -> Message:
        message = real(letter, dead)
        message.expiration = dead.expiration
        return message

    patch.setattr(DeadLetter, "of", of)
    patch.setattr(ClassicQueue, "publish_all", lambda queue, messages: max(map(queue.publish, messages)))


def bytes_are_not_counted_back(patch: pytest.MonkeyPatch) -> None:
    real = ReadyMessages.give_back

    def give_back(ready_messages: ReadyMessages, entries: Any) -> None:
        before = ready_messages.bytes
        real(ready_messages, entries)
        ready_messages.bytes = before

    patch.setattr(ReadyMessages, "give_back", give_back)


def the_lowest_level_is_looked_at_first(patch: pytest.MonkeyPatch) -> None:
    def peek(ready_messages: PriorityReadyMessages) -> Entry | None:
        heads = (level.peek() for _, level in sorted(ready_messages._levels.items()))
        return next((head for head in heads if head is not None), None)

    patch.setattr(PriorityReadyMessages, "peek", peek)


@pytest.mark.parametrize(
    "plant",
    [
        what_comes_back_is_not_counted,
        nobody_gets_what_expires_this_moment,
        a_run_does_not_mind_the_time,
        nobody_watches_what_comes_to_the_head,
        the_newest_is_dropped,
        a_full_queue_is_not_shortened_at_a_start,
        one_more_than_may_be,
        the_publishers_time_is_forgotten,
        a_letter_dies_again,
        bytes_are_not_counted_back,
        the_lowest_level_is_looked_at_first,
    ],
    ids=lambda plant: plant.__name__,
)
def test_the_model_notices(monkeypatch: pytest.MonkeyPatch, plant: Plant) -> None:
    plant(monkeypatch)
    assert any(found(seed) for seed in SEEDS)


def found(seed: int) -> bool:
    try:
        walk(seed, 60)
    except AssertionError:
        return True
    return False
