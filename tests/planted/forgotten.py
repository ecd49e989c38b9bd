"""Mistakes by omission: what never reaches the disk, in a process that is killed."""

from __future__ import annotations

from itertools import count

from storage.batch import SealedBatch, WriteBatch
from tests.planted.mistake import Mistake

EVERY = 10


def acknowledgement_forgotten() -> None:
    """Write nothing of every tenth settlement. Nobody notices before the next start."""
    seal, settlements = WriteBatch.seal, count(1)

    def seal_forgetting(batch: WriteBatch, last_event: int = 0) -> SealedBatch:
        sealed = seal(batch, last_event)
        kept = [
            lane._replace(settled=tuple(position for position in lane.settled if next(settlements) % EVERY))
            for lane in sealed.lanes
        ]
        return sealed._replace(lanes=tuple(kept))

    WriteBatch.seal = seal_forgetting  # type: ignore[method-assign, assignment]


MISTAKES = {"acknowledgement forgotten": Mistake("I2", acknowledgement_forgotten)}
