"""The message store against a dictionary: any order of puts, acks, purges, deletions, reclaim steps and restarts.

The dictionary holds what was committed and what is gathering. A dirty restart drops what is gathering; any restart
drops what is not persistent. After every commit and restart the store must hold exactly what the dictionary holds.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from storage.batch import TRANSIENT_QUEUE
from storage.messages.message_store import MessageStore
from storage.messages.segments import SEGMENT_BYTES
from storage.messages.verify_messages import verify
from tests.unit.storage.writing import END, Writer

QUEUES = (1, 2, 300, TRANSIENT_QUEUE + 1)
LANES = (0, 5)
BODY_IDS = (1, 2, 3)
SIZES = (0, 10, 700, 5000)


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

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="leveret-model-")) / "messages"
        self.committed: Contents = {}
        self.gathering: Contents = {}
        self.reserved: list[int] = []
        self.serial = 0
        self._open()

    def _open(self) -> None:
        self.store = MessageStore.open(self.path)
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
        self.gathering[(queue_id, lane)] = dict(sorted(lane_held.items()))

    def reserve(self) -> None:
        """Give out a position that will be used later."""
        self.reserved.append(self.writer.next_position())

    def settle(self, queue_id: int, lane: int, index: int) -> None:
        """Settle one message of a lane, or one that is long gone."""
        held = self.gathering.get((queue_id, lane), {})
        position = list(held)[index % len(held)] if held else 1 + index
        held.pop(position, None)
        self.writer.settle(queue_id, position, lane=lane)

    def count(self, queue_id: int, lane: int, index: int, deliveries: int) -> None:
        """Note how often one message of a lane, or one that is long gone, was handed out."""
        held = self.gathering.get((queue_id, lane), {})
        position = list(held)[index % len(held)] if held else 1 + index
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
        while self.store.reclaim(3):
            pass
        self.check()

    def flush(self) -> None:
        """Commit."""
        self.writer.flush()
        self.committed = deepcopy(self.gathering)

    def restart(self, *, dirty: bool) -> None:
        """Stop and start again; `dirty` without the last commit."""
        if not dirty:
            self.flush()
        self.store.close()
        self.committed = {
            place: {position: held for position, held in lane.items() if held.persistent}
            for place, lane in self.committed.items()
            if place[0] < TRANSIENT_QUEUE
        }
        self.gathering = deepcopy(self.committed)
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
                if lane in lanes.get(queue_id, {}):
                    durable = [len(message.body) for message in held.values() if message.persistent]
                    counters = lanes[queue_id][lane]
                    assert (counters.messages, counters.bytes) == (len(durable), sum(durable))
        assert self.store.corrupt == []

    def end(self) -> None:
        """Stop, and look at the files from the outside."""
        self.store.close()
        try:
            report = verify(self.path)
            assert report.problems == []
        finally:
            shutil.rmtree(self.path.parent)


queues, lanes = st.sampled_from(QUEUES), st.sampled_from(LANES)


class StoreMachine(RuleBasedStateMachine):
    """Rules in any order, as Hypothesis likes."""

    def __init__(self) -> None:
        super().__init__()
        self.pair = Pair()

    @rule(
        queue_id=queues,
        lane=lanes,
        count=st.integers(1, 20),
        size=st.sampled_from(SIZES),
        persistent=st.booleans(),
        body_id=st.sampled_from((0, 0, *BODY_IDS)),
        late=st.booleans(),
    )
    def put(self, queue_id: int, lane: int, count: int, size: int, persistent: bool, body_id: int, late: bool) -> None:
        for _ in range(count):
            self.pair.put(queue_id, lane, size, persistent=persistent, body_id=body_id, late=late)

    @rule(count=st.integers(1, 4))
    def reserve(self, count: int) -> None:
        for _ in range(count):
            self.pair.reserve()

    @rule(queue_id=queues, lane=lanes, indexes=st.lists(st.integers(0, 100), max_size=15))
    def settle(self, queue_id: int, lane: int, indexes: list[int]) -> None:
        for index in indexes:
            self.pair.settle(queue_id, lane, index)

    @rule(
        queue_id=queues,
        lane=lanes,
        indexes=st.lists(st.integers(0, 100), min_size=1, max_size=5),
        deliveries=st.integers(1, 1 << 31),
    )
    def count(self, queue_id: int, lane: int, indexes: list[int], deliveries: int) -> None:
        for index in indexes:
            self.pair.count(queue_id, lane, index, deliveries)

    @rule(queue_id=queues, lane=lanes, survivors=st.integers(0, 5))
    def purge(self, queue_id: int, lane: int, survivors: int) -> None:
        self.pair.purge(queue_id, lane, survivors)

    @rule(queue_id=queues)
    def delete(self, queue_id: int) -> None:
        self.pair.delete(queue_id)

    @rule()
    def flush(self) -> None:
        self.pair.flush()

    @rule(budget=st.integers(1, 5))
    def reclaim(self, budget: int) -> None:
        self.pair.store.reclaim(budget)

    @rule(dirty=st.booleans())
    def restart(self, dirty: bool) -> None:
        self.pair.restart(dirty=dirty)

    @invariant()
    def holds_the_same(self) -> None:
        self.pair.check()

    def teardown(self) -> None:
        self.pair.end()


TestStore = pytest.mark.slow(StoreMachine.TestCase)
TestStore.settings = settings(
    max_examples=120, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)


def weighted_steps(pair: Pair, choose: random.Random) -> list[tuple[int, Callable[[], object]]]:
    """What a broker mostly does, and what it rarely does. Acks come in runs, which uniform choices hardly produce."""

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
        (2, lambda: pair.purge(*place(), choose.choice((0, 0, 3, 40)))),
        (1, lambda: pair.delete(choose.choice(QUEUES))),
        (25, pair.flush),
        (6, lambda: pair.store.reclaim(choose.choice((1, 3, 50)))),
        (3, lambda: pair.restart(dirty=choose.random() < 0.7)),
    ]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
def test_a_long_walk_ends_where_the_dictionary_does(seed: int) -> None:
    pair, choose = Pair(), random.Random(seed)
    weights, steps = zip(*weighted_steps(pair, choose), strict=True)
    for number in range(300):
        choose.choices(steps, weights)[0]()
        if number % 10 == 0:
            pair.check()
    pair.restart(dirty=False)
    pair.end()
