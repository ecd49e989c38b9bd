"""Confirms that wait for a second place: in order, behind a whole base, and bounded."""

from __future__ import annotations

import pytest

from broker.server.commits import held_confirms
from broker.server.commits.held_confirms import HeldConfirms
from storage.batch import SealedBatch


class Place:
    """The records on their way."""

    def __init__(self) -> None:
        self.position = 0
        self.safe = -1


class Publisher:
    """A waiter."""

    def __init__(self) -> None:
        self.told: list[int] = []

    def stored(self, batch: int) -> None:
        self.told.append(batch)


@pytest.fixture
def place() -> Place:
    return Place()


@pytest.fixture
def held(place: Place) -> HeldConfirms:
    return HeldConfirms(place, lambda: 7.0)


def batch(number: int, *waiters: Publisher) -> SealedBatch:
    return SealedBatch(number, (), (), (), waiters, removal_waiters=(Publisher(),))


def test_a_batch_that_is_at_the_place_already_is_told_whole(place: Place, held: HeldConfirms) -> None:
    place.position = place.safe = 3
    whole = batch(1, Publisher())
    assert held.hold(whole) is whole
    assert held.seconds() == 0


def test_confirms_come_in_order_also_of_a_batch_without_a_record(place: Place, held: HeldConfirms) -> None:
    first, second = Publisher(), Publisher()
    place.safe, place.position = 0, 1
    told = held.hold(batch(1, first))
    assert told.waiters == ()
    assert len(told.removal_waiters) == 1, "a purge is not held"
    held.hold(batch(2, first, second))
    place.position = 2
    held.hold(batch(3, second))
    assert not held.release()
    place.safe = 1
    assert held.release()
    assert (first.told, second.told) == ([2], [2])
    place.safe = 2
    assert held.release()
    assert second.told == [2, 3]
    assert not held.release()


def test_nothing_is_told_before_there_is_a_base(place: Place, held: HeldConfirms) -> None:
    """Not even of a batch that leaves no record: nothing may be shipped at all."""
    waiter = Publisher()
    held.hold(batch(1, waiter))
    assert not held.release()
    place.safe = 0
    assert held.release()


def test_a_channel_that_has_ended_is_waited_for_no_more(place: Place, held: HeldConfirms) -> None:
    gone, left = Publisher(), Publisher()
    place.safe, place.position = 0, 1
    held.hold(batch(1, gone))
    held.hold(batch(2, gone, left))
    place.position = 2
    held.hold(batch(3, gone))
    place.safe = 1
    assert held.release()
    assert (gone.told, left.told) == ([2], [2])
    held.hold(batch(4, left))
    held.forget(gone)
    held.forget(gone)
    place.safe = 2
    assert held.release()
    assert (gone.told, left.told) == ([2], [2, 4])
    held.hold(batch(5, gone))
    place.position = 3
    held.hold(batch(6, gone))
    held.forget(gone)
    assert held.seconds() == 0


def test_publishers_are_not_read_while_many_wait(
    place: Place, held: HeldConfirms, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_confirms, "WAITS_MAX", 3)
    held.hold(batch(1, Publisher(), Publisher(), Publisher()))
    assert not held.crowded
    held.hold(batch(2, Publisher()))
    assert held.crowded
    place.safe = 0
    held.release()
    assert not held.crowded
