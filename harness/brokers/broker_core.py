"""The broker without its server: entities over a real message store, with a clock and turns moved by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import lmdb

from broker.entities.arguments.personality import DEFAULT, Personality
from broker.entities.exchanges.exchange import Exchange
from broker.entities.messages.message import Message, QueuedMessage, route_of
from broker.entities.node.broker import Broker, BrokerSettings, Pace
from broker.entities.queues.consumer_prefetch import UNLIMITED, Consumer
from broker.entities.queues.events.event_recording import Recorder
from broker.entities.queues.queue import Queue, QueueSpec
from broker.entities.queues.ready_messages import MemoryWindow
from broker.entities.vhosts.vhost import VHost
from broker.wire.field_tables import from_python
from broker.wire.properties import BasicProperties, encode_header
from harness.brokers.definitions_in_memory import RecordedDefinitions
from storage.batch import PERSISTENT, SealedBatch
from storage.messages.message_store import MessageStore

START = 1_700_000_000_000
SMALL = MemoryWindow(4, 1 << 20)
BY_HAND = Pace(lambda: None)
"""Nobody sleeps until something is due: tests move the time."""


class HandClock:
    """Time that is moved by hand; milliseconds since the epoch. To the broker it goes on: a clock it could wait for."""

    stopped = False

    def __init__(self, now: int = START) -> None:
        self.time = now

    def now(self) -> int:
        return self.time

    def soon(self) -> int:
        return self.time + 1

    def seconds_until(self, due: int) -> float:
        return max(0.0, (due - self.time) / 1000)


class Core:
    """A broker with one virtual host. `crash` and `restart` leave a new one on the same data and clock."""

    def __init__(
        self,
        directory: Path,
        window: MemoryWindow = SMALL,
        definitions: RecordedDefinitions | None = None,
        chance: Random | None = None,
        recorder: Recorder | None = None,
        pace: Pace = BY_HAND,
        clock: HandClock | None = None,
        *,
        check_invariants: bool = True,
        journal_bytes: int = 0,
        personality: Personality = DEFAULT,
    ) -> None:
        self.personality = personality
        self.pace = pace
        self.chance = chance
        self.recorder = recorder
        self.check_invariants = check_invariants
        self._journal_bytes = journal_bytes
        self.directory = directory
        self.window = window
        self.clock = clock or HandClock()
        self.definitions = definitions or RecordedDefinitions()
        self._start()

    def _start(self) -> None:
        self.store = MessageStore.open(self.directory, journal_bytes=self._journal_bytes)
        settings = BrokerSettings(self.window, 1 << 20, 1 << 19, self.check_invariants, self.personality)
        self.broker = Broker(
            settings, self.clock, self.store, self.definitions, self.store.boot, self.pace, self.chance, self.recorder
        )
        self.vhost: VHost = self.broker.add_vhost("/")
        lanes = self.store.lanes()
        self.definitions.restore(self.vhost, lambda queue_id: lanes.get(queue_id, {}))
        self.store.delete_queues(self.definitions.deleted_queues)

    # Time and disk

    def end_turn(self) -> None:
        """Deliver and flush until nothing is left to do in this turn."""
        while self.broker.turn.pending:
            self.broker.turn.end()
        self.broker.batches.seal_if_full()

    def seal(self) -> SealedBatch | None:
        """End the turn and take the next batch; it is in flight until `land` is called with it."""
        self.end_turn()
        return self.broker.batches.next(lazily=True)

    def land(self, batch: SealedBatch) -> None:
        """The batch reaches the disk, and everybody who waited is told."""
        self.store.commit(batch)
        self.broker.stored(batch)
        self.end_turn()

    def commit(self) -> None:
        """Bring everything gathered to disk."""
        while (batch := self.seal()) is not None:
            self.land(batch)

    def advance(self, milliseconds: int) -> None:
        """Let time pass, and do what has become due."""
        self.clock.time += milliseconds
        self.broker.timers.run(self.clock.now())
        self.end_turn()

    def crash(self) -> None:
        """Lose everything that is not on disk, and start again."""
        self.store.close()
        self._start()

    def restart(self) -> None:
        """Stop in order and start again."""
        self.commit()
        self.crash()

    def close(self) -> None:
        """Let go of the store."""
        self.store.close()

    # Entities

    def queue(self, name: str = "q", *, durable: bool = True, **arguments: Any) -> Queue:
        """Declare a queue, or find it; `max_length=3` is the argument x-max-length."""
        table = from_python({"x-" + key.replace("_", "-"): value for key, value in arguments.items()})
        return self.vhost.declare_queue(QueueSpec(name, durable, False, False, table), None).result()

    def queue_named(self, name: str) -> Queue:
        """A queue that is there."""
        return self.vhost.queues[name]

    def exchange(
        self,
        name: str,
        type_: str = "direct",
        *,
        durable: bool = True,
        auto_delete: bool = False,
        arguments: Mapping[str, Any] | None = None,
    ) -> Exchange:
        """Declare an exchange, or find it."""
        table = from_python(arguments or {})
        return self.vhost.declare_exchange(
            name, type_, durable=durable, auto_delete=auto_delete, internal=False, arguments=table
        ).result()

    def bind(
        self, source: Exchange, destination: Queue | Exchange, key: str = "", arguments: Mapping[str, Any] | None = None
    ) -> None:
        """Bind, and wait for nothing."""
        table = from_python(arguments or {})
        self.vhost.bindings.bind(source.binding(destination, key, table), table).result()

    def unbind(
        self, source: Exchange, destination: Queue | Exchange, key: str = "", arguments: Mapping[str, Any] | None = None
    ) -> None:
        """Unbind, and wait for nothing."""
        self.vhost.bindings.unbind(source.binding(destination, key, from_python(arguments or {}))).result()

    def routed(self, exchange: str, key: str, headers: Mapping[str, Any] | None = None) -> list[str]:
        """The names of the queues a message reaches, sorted."""
        routes = self.vhost.route(self.vhost.exchange(exchange), (key,), from_python(headers or {}))
        return sorted(queue.name for queue in routes.queues)

    def deposit(self, queue: Queue, *bodies: bytes, persistent: bool = True, **properties: Any) -> None:
        """Publish messages to one queue through the default exchange, each in a turn of its own."""
        for body in bodies:
            queue.publish(message(body, key=queue.name, persistent=persistent, **properties))
            self.end_turn()


def message(body: bytes, *, exchange: str = "", key: str = "", persistent: bool = True, **properties: Any) -> Message:
    """A message as basic.publish makes it. `headers` may be a plain dictionary."""
    if "headers" in properties:
        properties["headers"] = from_python(properties["headers"])
    header = encode_header(len(body), BasicProperties(delivery_mode=2 if persistent else 1, **properties))
    made = Message(route_of(exchange, key), header, body, PERSISTENT if persistent else 0)
    expiration = properties.get("expiration")
    made.expiration = None if expiration is None else int(expiration)
    made.priority = properties.get("priority") or 0
    return made


def flip(environment: lmdb.Environment, kind: bytes, number: int = 0, at: int = -1) -> None:
    """Damage one byte of the record of a kind with this number, in a store's files."""
    with environment.begin(write=True) as txn:
        found = [(bytes(key), bytearray(value)) for key, value in txn.cursor() if bytes(key).startswith(kind)]
        key, value = found[number]
        value[at] ^= 0x55
        txn.put(key, bytes(value))


class Reader:
    """A channel that remembers what it was given and settles what it is told to."""

    prefetch_all = 0

    def __init__(self, *, room: int = UNLIMITED, allowance: int = UNLIMITED) -> None:
        self.space = room
        self.limit = allowance
        self.seen: list[tuple[str, bytes, bool]] = []
        self.held: list[QueuedMessage] = []
        self.ended: list[str] = []

    def consume(
        self,
        queue: Queue,
        tag: str = "t",
        *,
        prefetch: int = 0,
        no_ack: bool = False,
        exclusive: bool = False,
        priority: int = 0,
    ) -> Consumer:
        """Subscribe to a queue."""
        consumer = Consumer(
            queue,
            self,
            tag,
            no_ack=no_ack,
            exclusive=exclusive,
            prefetch=prefetch,
            priority=priority,
            arguments={},
        )
        queue.consumers.add(consumer)
        return consumer

    @property
    def bodies(self) -> list[bytes]:
        """The bodies it was given, in order."""
        return [body for _, body, _ in self.seen]

    def take(self) -> list[tuple[bytes, bool]]:
        """Bodies and redelivered flags since last asked."""
        taken = [(body, redelivered) for _, body, redelivered in self.seen]
        self.seen.clear()
        return taken

    def ack(self, *bodies: bytes) -> None:
        """Acknowledge messages by their bodies; without any, all."""
        for entry in self._strike(bodies):
            entry.queue.settle((entry,))
            if entry.consumer is not None:
                entry.consumer.settled()

    def requeue(self, *bodies: bytes) -> None:
        """Give messages back by their bodies; without any, all."""
        for entry in self._strike(bodies):
            consumer = entry.consumer
            entry.queue.requeue((entry,))
            if consumer is not None:
                consumer.settled()

    def reject(self, *bodies: bytes) -> None:
        """Reject messages by their bodies; without any, all."""
        for entry in self._strike(bodies):
            entry.queue.reject((entry,))
            if entry.consumer is not None:
                entry.consumer.settled()

    def get(self, queue: Queue, *, no_ack: bool = False) -> bytes | None:
        """basic.get: the body of the first ready message."""
        entry = queue.get(self, no_ack=no_ack)
        if entry is None:
            return None
        assert entry.message is not None
        if not no_ack:
            self.held.append(entry)
        return entry.message.body

    def drain(self, queue: Queue, *, no_ack: bool = True) -> list[bytes]:
        """Take everything out of a queue: the bodies, in order."""
        return list(iter(lambda: self.get(queue, no_ack=no_ack), None))

    def give_back_unread(self, queue: Queue) -> None:
        """Take everything out of a queue whose messages are on disk, let the contents go, and give it all back."""
        self.drain(queue, no_ack=False)
        held, self.held = self.held, []
        for entry in held:
            entry.release()
            assert entry.message is None
        queue.requeue(held)

    def _strike(self, bodies: Sequence[bytes]) -> list[QueuedMessage]:
        struck = [entry for entry in self.held if not bodies or (entry.message and entry.message.body in bodies)]
        assert len(struck) == len(bodies or self.held), f"{bodies!r} are not all held"
        self.held = [entry for entry in self.held if entry not in struck]
        return struck

    # What a queue asks of a channel

    def room(self) -> int:
        return self.space

    def allowance(self) -> int:
        return self.limit

    def deliver(self, consumer: Consumer, entries: Sequence[QueuedMessage]) -> None:
        for entry in entries:
            assert entry.message is not None, "delivered without its content"
            self.seen.append((consumer.tag, entry.message.body, entry.redelivered))
        if not consumer.no_ack:
            self.held.extend(entries)

    def unacked_of(self, queue: Queue) -> Iterable[QueuedMessage]:
        return [entry for entry in self.held if entry.queue is queue]

    def cancelled(self, consumer: Consumer) -> None:
        self.ended.append(consumer.tag)
