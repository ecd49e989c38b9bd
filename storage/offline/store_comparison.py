"""Comparison of two stores of one history: the older disk, and what was restored of an earlier moment of it.

A message is the same in both if its queue, lane and position are: no position is given out twice in a history, nor
by the timelines that begin in it. Only indexes are read, one lane at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from storage.batch import TRANSIENT_QUEUE, StoredMessage
from storage.offline.offline_reader import StoppedStore
from storage.storage_errors import StoreIncompatible


class MissingMessage(NamedTuple):
    """A message of the old store that the restored one lacks. `message` is None if it cannot be read."""

    queue_id: int
    position: int
    message: StoredMessage | None


class StoreDifference(NamedTuple):
    """Persistent messages that only one of both stores has: counts, and the first ones of the old store."""

    missing: int
    """Messages of the old store that the restored one lacks."""
    named: list[MissingMessage]
    again: int
    """Messages of the restored store that the old one has no more."""


def compare(old: StoppedStore, new: StoppedStore, is_known: Callable[[int], bool], named_max: int) -> StoreDifference:
    """Compare the messages of queues that are known by id.

    Raises StoreIncompatible if the stores are not of one history, in which the old one is the later.
    """
    _refuse_others(old, new)
    missing, again, named = 0, 0, list[MissingMessage]()
    for queue_id, lane in sorted({*old.places(), *new.places()}):
        if queue_id >= TRANSIENT_QUEUE or not is_known(queue_id):
            continue
        for position, is_old in _in_one_only(_positions(old, queue_id, lane), _positions(new, queue_id, lane)):
            missing, again = missing + is_old, again + (not is_old)
            if is_old and len(named) < named_max:
                named.append(MissingMessage(queue_id, position, old.at(queue_id, lane, position)))
    return StoreDifference(missing, named, again)


def _refuse_others(old: StoppedStore, new: StoppedStore) -> None:
    if old.identity.uuid != new.identity.uuid:
        raise StoreIncompatible(f"{old.directory} is of another broker than {new.directory}")
    if old.identity.boot >= new.identity.boot:
        boots = f"boot {old.identity.boot} is not before boot {new.identity.boot}"
        raise StoreIncompatible(f"{old.directory} is not what {new.directory} was before: {boots}")
    if old.is_backup:
        raise StoreIncompatible(f"{old.directory} is a backup: no broker has run on it")


def _positions(store: StoppedStore, queue_id: int, lane: int) -> Iterator[int]:
    return (entry.position for entry in store.live(queue_id, lane) if entry.persistent)


def _in_one_only(first: Iterator[int], second: Iterator[int]) -> Iterator[tuple[int, bool]]:
    """Yield the numbers that are in one of two ascending series, and whether that is the first."""
    left, right = next(first, None), next(second, None)
    while left is not None or right is not None:
        if left == right:
            left, right = next(first, None), next(second, None)
        elif right is None or (left is not None and left < right):
            assert left is not None
            yield left, True
            left = next(first, None)
        else:
            yield right, False
            right = next(second, None)
