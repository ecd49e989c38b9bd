"""The message store against a dictionary: any order of puts, acks, purges, deletions, reclaim steps and restarts.

The dictionary holds what was committed and what is gathering. A dirty restart drops what is gathering; any restart
drops what is not persistent. After every commit and restart the store must hold exactly what the dictionary holds.

Now and then the disk is full: batches wait, are merged, and only what they take away is committed; not, however,
messages that have moved, which go when everything has come to disk.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pytest

from storage.batch import TRANSIENT_QUEUE, PeekLimits, SealedBatch, StoredMessage
from storage.batch_removals import additions, removals
from storage.journal.journal_file import PAGE_BYTES
from storage.journal.unapplied_writes import merged
from storage.messages.message_segments import SEGMENT_BYTES
from storage.messages.message_store import MessageStore
from storage.offline.verify_messages import verify
from tests.models.random_walk import Step, take_steps
from tests.unit.storage.writing import END, Writer

QUEUES = (1, 2, 300, TRANSIENT_QUEUE + 1)
LANES = (0, 5)
BODY_IDS = (1, 2, 3)
SIZES = (0, 10, 700, 5000)
JOURNAL_PAGES_MIN = 8
CUT = 3
LIMITS = PeekLimits(messages=100, looked_at=1000, size_bytes=1 << 16, body_bytes=CUT)


class Held(NamedTuple):
    """A message in the dictionary."""

    body: bytes
    persistent: bool
    body_id: int
    deliveries: int = 0


Place = tuple[int, int]
Contents = dict[Place, dict[int, Held]]


class Pair:
    """A store, and the dictionary that says what it must hold."""

    def __init__(self, journal_bytes: int = 0) -> None:
        self.journal_bytes = journal_bytes
        self.path = Path(tempfile.mkdtemp(prefix="leveret-model-")) / "messages"
        self.committed: Contents = {}
        self.gathering: Contents = {}
        self.reserved: list[int] = []
        self.moving: set[tuple[Place, int]] = set()
        self.waiting: SealedBatch | None = None
        self.serial = 0
        self._open()

    def _open(self) -> None:
        self.store = MessageStore.open(self.path, journal_bytes=self.journal_bytes)
        self.writer = Writer(self.store)

    def put(
        self, queue_id: int, lane: int, size: int, *, persistent: bool = True, body_id: int = 0, late: bool = False
    ) -> None:
        """Put a message, `late` at a position that was reserved before."""
        self.serial += 1
        # A shared body has one content for all time, as the broker gives each number out once.
        body = b"shared %d" % body_id if body_id else b"%d." % self.serial + b"x" * size
        reserved = self.reserved.pop() if late and self.reserved else None
        position = self.writer.put(queue_id, body, lane=lane, persistent=persistent, body_id=body_id, position=reserved)
        lane_held = self.gathering.setdefault((queue_id, lane), {})
        lane_held[position] = Held(body, persistent, body_id)
        if reserved is not None:
            self.gathering[(queue_id, lane)] = dict(sorted(lane_held.items()))

    def reserve(self) -> None:
        """Give out a position that will be used later."""
        self.reserved.append(self.writer.next_position())

    def settle(self, queue_id: int, lane: int, index: int) -> None:
        """Settle one message of a lane, or one that is long gone."""
        held = self.gathering.get((queue_id, lane), {})
        position = _one_of(held, index)
        held.pop(position, None)
        self.writer.settle(queue_id, position, lane=lane)

    def move(self, queue_id: int, lane: int, index: int) -> None:
        """Settle one message of a lane, and put another for it into another."""
        held = self.gathering.get((queue_id, lane), {})
        if held:
            position = _one_of(held, index)
            self.put(QUEUES[0] if queue_id != QUEUES[0] else QUEUES[1], lane, 10)
            del held[position]
            self.moving.add(((queue_id, lane), position))
            self.writer.move(queue_id, position, lane=lane)

    def count(self, queue_id: int, lane: int, index: int, deliveries: int) -> None:
        """Note how often one message of a lane, or one that is long gone, was handed out."""
        held = self.gathering.get((queue_id, lane), {})
        position = _one_of(held, index)
        if held:
            held[position] = held[position]._replace(deliveries=deliveries)
        self.writer.count(queue_id, position, deliveries, lane=lane)

    def purge(self, queue_id: int, lane: int, survivors: int) -> None:
        """Purge a lane but for its first few messages, which a consumer holds."""
        held = self.gathering.get((queue_id, lane), {})
        kept = list(held)[:survivors]
        self.gathering[(queue_id, lane)] = {position: held[position] for position in kept}
        self.reserved.clear()  # what was published before the purge is dead too
        self.writer.purge(queue_id, kept, lane=lane)

    def delete(self, queue_id: int) -> None:
        """Delete a queue. Its number comes back only after its records are gone, and a durable one never does."""
        self.writer.delete(queue_id)
        for place in [place for place in self.gathering if place[0] == queue_id]:
            del self.gathering[place]
        self.flush()
        for place, position in self.moving:
            if position in self.committed.get(place, {}):
                assert self.store.fetch(*place, [position]), "it is gone before what was put for it has come"
        self.have_room()
        while self.store.journal.ahead:
            self.store.catch_up()
        while self.store.reclaim(3):
            pass
        self.check()

    def flush(self) -> None:
        """Commit; on a full disk as much as is possible there."""
        if self.waiting is None:
            self.writer.flush()
            self._everything_is_there()
            return
        batch = merged(self.waiting, self.writer.seal())
        self.store.commit(removals(batch))
        self.waiting = additions(batch)
        for place, held in self.committed.items():
            left = self.gathering.get(place, {})
            self.committed[place] = {at: held[at] for at in held if at in left or (place, at) in self.moving}

    def have_no_room(self) -> None:
        """The disk is full from the next commit on."""
        if self.waiting is None:
            self.flush()
            self.waiting = self.writer.seal()

    def have_room(self) -> None:
        """Commit until all waiting messages fit."""
        if self.waiting is not None:
            self.flush()
            self.store.commit(self.waiting)
            self.waiting = None
            self._everything_is_there()

    def _everything_is_there(self) -> None:
        self.committed = _copied(self.gathering)
        self.moving.clear()

    def restart(self, *, dirty: bool) -> None:
        """Stop and start again; `dirty` without the last commit."""
        if not dirty:
            self.have_room()
            self.flush()
        self.store.close()
        self.waiting = None
        self.moving.clear()
        self.committed = {
            place: {position: held for position, held in lane.items() if held.persistent}
            for place, lane in self.committed.items()
            if place[0] < TRANSIENT_QUEUE
        }
        self.gathering = _copied(self.committed)
        self.reserved.clear()
        self._open()
        self.check()

    def check(self) -> None:
        """The store holds what the dictionary holds, lane by lane, and counts it rightly."""
        lanes = self.store.lanes()
        for queue_id in QUEUES:
            for lane in LANES:
                held = self.committed.get((queue_id, lane), {})
                found = self.store.read(queue_id, lane, 0, END, 1 << 20, 1 << 30)
                read = [(m.position, m.body, m.body_id, m.delivery_count) for m in found]
                assert read == [(position, m.body, m.body_id, m.deliveries) for position, m in held.items()]
                fetched = self.store.fetch(queue_id, lane, list(held)[::2])
                assert [(m.position, m.delivery_count) for m in fetched] == [
                    (position, held[position].deliveries) for position in list(held)[::2]
                ]
                # Transient queues count nothing in the broker, and a merged batch relies on that.
                counted = not self.store.journal.ahead and (self.waiting is None or queue_id < TRANSIENT_QUEUE)
                if counted and lane in lanes.get(queue_id, {}):
                    durable = [len(message.body) for message in held.values() if message.persistent]
                    counters = lanes[queue_id][lane]
                    assert (counters.messages, counters.bytes) == (len(durable), sum(durable))
        assert not self.store.corrupt
        self._look(QUEUES[self.serial % len(QUEUES)], LANES[self.serial % len(LANES)])

    def _look(self, queue_id: int, lane: int) -> None:
        """A look at a lane, from a message within on, sees what the dictionary holds."""
        held = self.committed.get((queue_id, lane), {})
        skip = self.serial % (len(held) + 1)
        look, seen = self.store.peeks.lane(queue_id, lane, 0, END, skip), list[tuple[int, StoredMessage]]()
        while not look.done:
            seen += look.step(LIMITS)
        expected = list(enumerate((position, m.body[:CUT], m.deliveries) for position, m in held.items()))
        assert [(number, (m.position, m.body, m.delivery_count)) for number, m in seen] == expected[skip:]
        found = self.store.peeks.lane(queue_id, lane, 0, END).at(list(held)[::2], LIMITS)
        assert [(m.position, m.body) for m in found] == [(position, body) for _, (position, body, _) in expected[::2]]

    def store_catches_up(self) -> None:
        """LMDB takes over what is in the journal, or a parcel of it that is made up already."""
        self.store.catch_up()
        self.check()

    def parcel_is_made_up(self) -> None:
        """Batches that are committed after this are not for LMDB the next time."""
        self.store.journal.make_parcel()
        self.check()

    def commits_go_on(self) -> None:
        """While LMDB catches up, again and again, so that records go around the end of the journal."""
        for _ in range(JOURNAL_PAGES_MIN):
            self.store.journal.make_parcel()
            self.put(QUEUES[0], LANES[0], 10, persistent=True)
            self.flush()
            self.store.catch_up()
        self.check()

    def store_takes_away(self) -> None:
        """LMDB takes over only what the journal says is gone."""
        self.store.take_away()
        self.check()

    def end(self) -> None:
        """Stop, and look at the files from the outside."""
        self.store.close()
        try:
            report = verify(self.path)
            assert report.problems == []
        finally:
            shutil.rmtree(self.path.parent)


def _one_of(held: dict[int, Held], index: int) -> int:
    """A position that is held, or where nothing is, one that is long gone."""
    return next(islice(held, index % len(held), None)) if held else 1 + index


def _copied(contents: Contents) -> Contents:
    return {place: dict(held) for place, held in contents.items()}


def weighted_steps(pair: Pair, choose: random.Random) -> list[Step]:
    """Return frequent and rare steps of a broker. Acks come in runs, which uniform choices hardly produce."""

    def place() -> tuple[int, int]:
        return choose.choice(QUEUES), choose.choice(LANES)

    def put() -> None:
        where, persistent = place(), choose.random() < 0.8
        for _ in range(choose.choice((1, 1, 5, 60, 700))):
            size = choose.choice((*SIZES, SEGMENT_BYTES if choose.random() < 0.02 else 0))
            pair.put(*where, size, persistent=persistent, body_id=choose.choice((0, 0, 0, *BODY_IDS)))

    def put_late() -> None:
        pair.put(*place(), 10, persistent=choose.random() < 0.5, late=True)

    def settle() -> None:
        where = place()
        in_order = choose.random() < 0.7
        for _ in range(choose.choice((1, 2, 30, 400))):
            pair.settle(*where, 0 if in_order else choose.randrange(1000))

    def count() -> None:
        where = place()
        for _ in range(choose.choice((1, 1, 20))):
            pair.count(*where, choose.randrange(1000), choose.choice((1, 2, 70_000)))

    return [
        (30, put),
        (10, count),
        (8, pair.reserve),
        (8, put_late),
        (45, settle),
        (10, lambda: pair.move(*place(), choose.randrange(1000))),
        (2, pair.have_no_room),
        (4, pair.have_room),
        (4, lambda: pair.purge(*place(), choose.choice((0, 0, 3, 40)))),
        (1, lambda: pair.delete(choose.choice(QUEUES))),
        (25, pair.flush),
        (6, lambda: pair.store.reclaim(choose.choice((1, 3, 50)))),
        (6, pair.store_catches_up),
        (6, pair.parcel_is_made_up),
        (4, pair.commits_go_on),
        (2, pair.store_takes_away),
        (3, lambda: pair.restart(dirty=choose.random() < 0.7)),
    ]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_a_long_walk_ends_where_the_dictionary_does(seed: int) -> None:
    """Without a journal, with one that is always full, and with one that LMDB may be far behind."""
    walk(seed)


def walk(seed: int) -> None:
    """A walk of 200 steps."""
    journal_bytes = (JOURNAL_PAGES_MIN * PAGE_BYTES, 1 << 23, 0)[seed % 3]
    pair, chance = Pair(journal_bytes), random.Random(seed)
    take_steps(chance, weighted_steps(pair, chance), 200, pair.check)
    pair.restart(dirty=False)
    pair.end()
