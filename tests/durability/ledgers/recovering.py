"""Recovers what a broker has left on its disk, and says what is in it.

Both stores are opened and everything is recovered as at a start of the broker, without the sockets. Then the broker is
used, and started again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from broker.config import Config, LimitsSettings
from broker.entities.exchanges.exchange import Exchange
from broker.entities.messages.message import QueuedMessage
from broker.entities.node.broker import Broker
from broker.entities.queues.delay_queue import DelayQueue
from broker.entities.queues.ordered_queue import OrderedQueue
from broker.entities.queues.queue import Queue
from broker.entities.queues.quorum.quorum_queue import QuorumEntry, QuorumQueue
from broker.entities.queues.ready_messages import MemoryWindow
from broker.entities.queues.streams.stream_queue import Stream
from broker.entities.vhosts.vhost import VHost
from broker.server.recovery import Stores, open_stores, recover
from harness.brokers.broker_core import BY_HAND, message
from storage.batch import OFFSET_STRIDE
from storage.messages.message_store import MessageStore
from storage.offline.verify_messages import verify
from tests.durability.ledgers.broker_ledger import Recovered
from tests.durability.ledgers.definition_ledger import Facts
from tests.durability.ledgers.topology import (
    DELAYING,
    LATE,
    MOVES,
    QUORUM,
    RANKED,
    WAITING_DEAD_LETTERS,
    WINDOW_BYTES,
    WINDOW_MESSAGES,
    WORK,
    body_of,
    kept,
    number_of,
)
from tests.unit.storage.writing import END

EVERYTHING = MemoryWindow(1 << 30, 1 << 40)
CONFIG = Config(limits=LimitsSettings(queue_window_messages=WINDOW_MESSAGES, queue_window_bytes=WINDOW_BYTES))

USED = (kept(0), WORK, RANKED, QUORUM)
AFTERWARDS = 1_000_000_007
"""The number of the message that is published after the crash."""

Held = dict[str, list[int]]


class Contents:
    """The messages of a recovered broker, taken out of its queues, and the first entry of each."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self.held: Held = {}
        self.log: dict[int, int] = {}
        self.counts: dict[int, int] = {}
        self.first: dict[str, QueuedMessage] = {}

    def look_at(self, vhost: VHost) -> None:
        """Add what a virtual host holds."""
        for name, queue in vhost.queues.items():
            ready = queue.ready
            self.held[name] = [number_of(body) for body in self._bodies(queue)]
            assert len(self.held[name]) == ready, f"{name} counts {ready} and holds {self.held[name]}"
            if isinstance(queue, QuorumQueue):
                self.held[WAITING_DEAD_LETTERS] = dead_letters_of(queue)
        for exchange in vhost.exchanges.values():
            if exchange.delays is not None:
                self.held[exchange.name] = waiting(self._store, exchange.delays)

    def _bodies(self, queue: Queue) -> Iterator[bytes]:
        """Yield the bodies of a queue; those of a stream as they are read."""
        if isinstance(queue, Stream):
            yield from self._bodies_of_stream(queue)
            return
        assert isinstance(queue, OrderedQueue), f"{queue.name} is of no type that this knows"
        while (entry := queue.pop()) is not None and entry.message is not None:
            self.first.setdefault(queue.name, entry)
            if isinstance(entry, QuorumEntry):
                self.counts[number_of(entry.message.body)] = entry.deliveries
            yield entry.message.body

    def _bodies_of_stream(self, stream: Stream) -> Iterator[bytes]:
        """Offsets begin at 0 and have no holes, but for what a restore leaves out, or what was accepted as lost."""
        found, end = stream.log.read(0, MemoryWindow(1 << 20, 1 << 30))
        offsets = [message.offset for message in found]
        gaps = [later - earlier - 1 for earlier, later in pairwise((-1, *offsets, end))]
        least = OFFSET_STRIDE if self._store.origin.timeline else 1 << 64
        least = 1 if self._store.accepted else least
        assert all(gap == 0 or gap >= least for gap in gaps), f"{stream.name} has holes: {offsets}, then {end}"
        for each in found:
            self.log[each.offset] = number_of(each.message.body)
            yield each.message.body


def waiting(store: MessageStore, delays: DelayQueue) -> list[int]:
    """The numbers of the messages that have not left a delaying exchange yet: the delay is the same for all."""
    stored = store.read(delays.store.queue_id, 0, 0, 1 << 64, 1 << 30, 1 << 40)
    assert len(stored) == delays.messages, f"the exchange counts {delays.messages} and holds {len(stored)}"
    found = store.waiting(delays.store.queue_id, 0, 0, 1 << 64, 1 << 30)
    positions = [message.position for message in stored]
    assert [place.position for place in found] == positions, f"{found} instead of {positions}"
    return [number_of(message.body) for message in stored]


def dead_letters_of(queue: QuorumQueue) -> list[int]:
    """The numbers of the dead letters that wait in a queue."""
    found = queue.store.dead_letters.read(queue, 0, END, EVERYTHING)
    assert len(found) == len(queue.dead_letters), (
        f"{len(queue.dead_letters)} dead letters are counted, {len(found)} are there"
    )
    return [number_of(dead_letter.message.body) for dead_letter in found if dead_letter.message is not None]


def by_place(held: Held) -> Held:
    """The same with two places as one between which messages move by themselves."""
    moved = {source: held.get(target, []) + held[source] for target, source in MOVES.items() if source in held}
    late = {LATE: held.get(LATE, []) + held.get(DELAYING, [])}
    return {name: numbers for name, numbers in {**held, **moved, **late}.items() if name not in (*MOVES, DELAYING)}


def facts_of(broker: Broker) -> Facts:
    """Every definition that the workload could have asked for."""
    main, facts = broker.vhosts["/"], Facts()
    facts |= {("queue", name): True for name in main.queues}
    streams = [queue for queue in main.queues.values() if isinstance(queue, Stream)]
    facts |= {("offset", each.name, group): found.offset for each in streams for group, found in each.committed.items()}
    facts |= {("exchange", name): exchange.type for name, exchange in main.exchanges.items()}
    for exchange in main.exchanges.values():
        for binding in exchange.bindings:
            kind = "exchange" if isinstance(binding.destination, Exchange) else "queue"
            facts["binding", exchange.name, kind, binding.destination.name, binding.key] = True
    users = broker.users
    facts |= {("user", name): (user.password_hash, user.tags) for name, user in users.by_name.items()}
    facts |= {("permission", *place): tuple(allowed) for place, allowed in users.permissions.items()}
    for name, vhost in broker.vhosts.items():
        facts["vhost", name] = vhost.description.description
        for policy in vhost.policy_application.policies.of(operator=False).values():
            facts["policy", name, policy.name] = policy.pattern.pattern, dict(policy.definition), policy.priority
    return facts


def started(data: Path, *, used: bool) -> tuple[Recovered, Held]:
    """Start a broker and look at everything; what it must hold after another start, when it has been used."""
    stores = open_stores(data)
    try:
        broker = recover(CONFIG, stores, BY_HAND).broker
        contents = Contents(stores.messages)
        for vhost in broker.vhosts.values():
            contents.look_at(vhost)
        found = Recovered(contents.held, contents.log, contents.counts, facts_of(broker))
        return found, use(stores, broker, contents) if used else found.held
    finally:
        stores.definitions.close()
        stores.messages.close()
        os.close(stores.lock)


def use(stores: Stores, broker: Broker, contents: Contents) -> Held:
    """Acknowledge the first message of some queues, publish another one, and clear away some of what is dead."""
    held = dict(contents.held)
    queues = broker.vhosts["/"].queues
    for name in [name for name in USED if name in queues]:
        if name in contents.first:
            queues[name].finish((contents.first[name],))
            held[name] = held[name][1:]
        queues[name].publish(message(body_of(AFTERWARDS, 300), key=name))
        held[name] = [*held[name], AFTERWARDS]
    while (batch := broker.batches.next(lazily=True)) is not None:
        stores.messages.commit(batch)
        broker.stored(batch)
    stores.messages.reclaim(8)
    return held


def recovered(root: Path) -> Recovered:
    """Return the contents after a start. They can be used, and are the same after another start."""
    data = root / "data"
    data.mkdir(exist_ok=True)  # as the broker does first of all
    found, expected = started(data, used=True)
    again, held = started(data, used=False)
    assert held == expected, f"after another start {different(held, expected)}"
    assert again.facts == found.facts, "the definitions have changed over another start"
    report = verify(data / "messages")
    assert report.problems == [], report.problems
    return found._replace(held=by_place(found.held))


def different(held: Held, expected: Held) -> str:
    """Return the first difference of two contents."""
    names = [name for name in {**held, **expected} if held.get(name) != expected.get(name)]
    return ", ".join(f"{name} holds {held.get(name)}, not {expected.get(name)}" for name in names)
