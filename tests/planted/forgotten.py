"""Mistakes by omission: what never reaches the disk, in a process that is killed."""

from __future__ import annotations

from collections import Counter
from itertools import count

from storage.batch import SealedBatch, SealedLane, WriteBatch
from tests.planted.mistake import Mistake

EVERY = 10


def acknowledgement_forgotten() -> None:
    """Write nothing of every tenth settlement, nor count it. Nobody notices before the next start."""
    seal, settlements = WriteBatch.seal, count(1)
    forgotten: Counter[tuple[int, int]] = Counter()

    def seal_forgetting(batch: WriteBatch, last_event: int = 0) -> SealedBatch:
        sealed = seal(batch, last_event)
        return sealed._replace(lanes=tuple(map(forgetting, sealed.lanes)))

    def forgetting(lane: SealedLane) -> SealedLane:
        kept = tuple(position for position in lane.settled if next(settlements) % EVERY)
        forgotten[lane.queue_id, lane.lane] += len(lane.settled) - len(kept)
        messages = lane.counters.messages + forgotten[lane.queue_id, lane.lane]
        return lane._replace(settled=kept, counters=lane.counters._replace(messages=messages))

    WriteBatch.seal = seal_forgetting  # type: ignore[method-assign, assignment]


def message_forgotten() -> None:
    """Write nothing of every tenth message, and confirm it. Nobody notices before the next start."""
    seal, messages = WriteBatch.seal, count(1)

    def seal_forgetting(batch: WriteBatch, last_event: int = 0) -> SealedBatch:
        sealed = seal(batch, last_event)
        kept = [lane._replace(puts=tuple(put for put in lane.puts if next(messages) % EVERY)) for lane in sealed.lanes]
        return sealed._replace(lanes=tuple(kept))

    WriteBatch.seal = seal_forgetting  # type: ignore[method-assign, assignment]


MISTAKES = {
    "acknowledgement forgotten": Mistake("I2", acknowledgement_forgotten),
    "message forgotten": Mistake("I1", message_forgotten),
}
