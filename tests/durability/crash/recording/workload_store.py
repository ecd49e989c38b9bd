"""A program to be recorded: drives the message store hard, and marks what it promises.

usage: workload_store.py DIRECTORY MARKS SEED BATCHES [MISTAKE]

MISTAKE is the name of one that is planted, so that the tests can see that the checks would find it.
"""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path
from typing import Any

from storage.batch import TRANSIENT_QUEUE, ClosedSegment, SealedBatch
from storage.messages import lmdb_environment
from storage.messages.message_store import MessageStore
from tests.durability.crash.recording.store_marks import body_of
from tests.planted.planted_catalogue import plant_here
from tests.unit.storage.writing import Writer

QUEUES = (1, 2, 3, TRANSIENT_QUEUE + 1)
LANES = (0, 0, 0, 7)
STREAM = 4
"""A queue whose lane 0 is a stream: positions are offsets from 0, messages leave at the front only."""

Key = tuple[int, int, int]


class Workload:
    """Publishes, acks, purges and deletes by chance, and restarts now and then."""

    def __init__(self, directory: Path, marks: int, seed: int) -> None:
        self._path = directory / "messages"
        self._marks = marks
        self._choose = random.Random(seed)
        self._live: dict[Key, int] = {}
        self._in_flight: set[Key] = set()
        self._next_queue = 10
        self._queues = list(QUEUES)
        self._settled: list[Key] = []
        self._offset = self._open_from = 0
        self._closed: list[ClosedSegment] = []
        self.open()

    def open(self) -> None:
        """Start a boot."""
        self._store = MessageStore.open(self._path)
        self._writer = Writer(self._store)
        self.mark(mark="open", boot=self._store.boot)

    def mark(self, **said: Any) -> None:
        """Make a promise."""
        os.write(self._marks, json.dumps(said).encode() + b"\n")

    def restart(self) -> None:
        """Stop without a last commit, and start again."""
        self._store.close()
        self._live = {key: persistent for key, persistent in self._live.items() if persistent}
        self._live = {key: 1 for key in self._live if key[0] < TRANSIENT_QUEUE}
        self._in_flight = set()
        self.open()

    def run_batch(self) -> None:
        """Gather some changes and commit them."""
        choose = self._choose
        said: dict[str, Any] = {kind: [] for kind in ("puts", "settled", "counted", "closed", "purges", "deleted")}
        for _ in range(choose.choice((1, 1, 2, 6))):
            self._put(said)
        if choose.random() < 0.6:
            self._stream(said)
        for _ in range(choose.choice((0, 1, 1, 3))):
            self._settle(said)
        if choose.random() < 0.4:
            self._count(said)
        if choose.random() < 0.07:
            self._purge(said)
        if choose.random() < 0.07:
            self._delete(said)
        if choose.random() < 0.2:
            self._queues.append(self._next_queue)
            self._next_queue += 1
        self._commit(self._writer.seal(), said)
        self._in_flight = {(key[0], key[1], key[2]) for key in said["puts"]}
        if choose.random() < 0.3:
            self._store.reclaim(choose.choice((1, 2, 50)))

    def _commit(self, sealed: SealedBatch, said: dict[str, Any]) -> None:
        self.mark(mark="sealed", **said)
        self._store.commit(sealed)
        self.mark(mark="stored")

    def _put(self, said: dict[str, Any]) -> None:
        choose = self._choose
        queue_id, lane = choose.choice(self._queues), choose.choice(LANES)
        persistent = choose.random() < 0.8
        for _ in range(choose.choice((1, 1, 10, 40))):
            size = choose.choice((0, 20, 300, 2000))
            body_id = choose.choice((0, 0, 0, 1, 2, 3))
            size = 3000 if body_id else size
            position = self._writer.next_position()
            key = (queue_id, lane, position)
            body = body_of(key, size, body_id).encode()
            self._writer.put(queue_id, body, lane=lane, persistent=persistent, body_id=body_id, position=position)
            said["puts"].append((*key, size, body_id, persistent))
            self._live[key] = persistent

    def _stream(self, said: dict[str, Any]) -> None:
        """Append to the stream; close its segment now and then, and let the oldest go."""
        choose = self._choose
        for _ in range(choose.choice((1, 5, 30))):
            key, size = (STREAM, 0, self._offset), choose.choice((0, 20, 300))
            self._writer.put(STREAM, body_of(key, size, 0).encode(), position=self._offset)
            said["puts"].append((*key, size, 0, True))
            self._offset += 1
        if choose.random() < 0.4:
            segment = ClosedSegment(STREAM, 0, self._open_from, self._offset, choose.randrange(1 << 20), self._offset)
            self._writer.batch.closed_segments.append(segment)
            said["closed"].append(segment)
            self._closed.append(segment)
            self._open_from = self._offset
        if len(self._closed) > choose.choice((1, 2, 4)):
            floor = self._closed.pop(0).end
            self._writer.truncate(STREAM, floor)
            said["purges"].append((STREAM, 0, floor, ()))

    def _settle(self, said: dict[str, Any]) -> None:
        choose = self._choose
        keys = list(self._live)
        if choose.random() < 0.5:
            keys = [key for key in keys if key in self._in_flight] or keys
        if choose.random() < 0.3:
            choose.shuffle(keys)
        for key in keys[: choose.choice((1, 5, 60, len(keys) // 2))]:  # the store stays small, and is soon recovered
            queue_id, lane, position = key
            del self._live[key]
            said["settled"].append(key)
            self._writer.settle(queue_id, position, lane=lane)

    def _count(self, said: dict[str, Any]) -> None:
        """Say of some messages, most of them put just now, how often they were handed out."""
        for key in list(self._live)[-self._choose.choice((1, 3, 20)) :]:
            queue_id, lane, position = key
            deliveries = self._choose.choice((1, 2, 300))
            self._writer.count(queue_id, position, deliveries, lane=lane)
            said["counted"].append((*key, deliveries))

    def _purge(self, said: dict[str, Any]) -> None:
        queue_id, lane = self._choose.choice(self._queues), 0
        held = sorted(key[2] for key in self._live if key[:2] == (queue_id, lane))
        survivors = [position for position in held if self._choose.random() < 0.1]
        self._writer.purge(queue_id, survivors, lane=lane)
        floor = self._writer.batch.purges[-1].floor
        said["purges"].append((queue_id, lane, floor, survivors))
        for position in set(held) - set(survivors):
            del self._live[(queue_id, lane, position)]

    def _delete(self, said: dict[str, Any]) -> None:
        deletable = [queue_id for queue_id in self._queues if 10 <= queue_id < TRANSIENT_QUEUE]
        if not deletable:
            return
        queue_id = deletable[0]
        self._queues.remove(queue_id)
        self._writer.delete(queue_id)
        said["deleted"].append(queue_id)
        self._live = {key: persistent for key, persistent in self._live.items() if key[0] != queue_id}


def main(directory: str, marks: str, seed: str, batches: str, mistake: str = "") -> None:
    """Run the workload."""
    if mistake:
        plant_here(mistake)
    # Small enough that files of this size are compacted too.
    lmdb_environment.COMPACT_FILE_BYTES, lmdb_environment.COMPACT_RATIO = 1 << 16, 2
    workload = Workload(Path(directory), os.open(marks, os.O_WRONLY | os.O_CREAT, 0o600), int(seed))
    for number in range(int(batches)):
        workload.run_batch()
        if number % 17 == 16:
            workload.restart()


if __name__ == "__main__":
    main(*sys.argv[1:])
