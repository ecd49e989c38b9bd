"""A queue with any combination of arguments against a list: priorities, times to live, limits, dead letters, requeues.

The list says what must be ready, in order, with what each message needs to be judged by; time is moved by hand.
The queue delivers the first of the list, and dead-letters those that the list loses, in the same order and for the same
reason. The window is four messages, so that much of it is on disk alone; an orderly restart may come at any
moment.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from bisect import insort
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from broker.entities.queues.consumer_prefetch import Consumer
from broker.entities.queues.ready_messages import MemoryWindow
from broker.entities.vhosts.vhost import RESTORE_SPREAD_MILLISECONDS
from broker.wire.properties import decode_properties
from harness.brokers.broker_core import Core, Reader, message
from harness.brokers.definitions_in_memory import RecordedDefinitions
from storage.offline.verify_messages import verify
from tests.models.random_walk import Step, take_steps

WINDOW = MemoryWindow(4, 400)
QUEUE, DEAD_LETTERS = "q", "dl"


class Item(NamedTuple):
    """A message as the list knows it. Items sort in the order of the queue."""

    below: int
    """Distance of its priority from the highest: lower comes first."""
    serial: int
    size: int
    expires_at: int
    persistent: bool


class Rules:
    """Meaning of the arguments in RabbitMQ's documentation, over one sorted list."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        self.highest: int = arguments.get("max_priority", 0)
        self.at_once = "max_priority" in arguments
        self.ttl: int | None = arguments.get("message_ttl")
        self.messages: int | None = arguments.get("max_length")
        self.bytes: int | None = arguments.get("max_length_bytes")
        self.overflow: str = arguments.get("overflow", "drop-head")
        self.dead_letters = "dead_letter_exchange" in arguments
        self.ready: list[Item] = []
        self.held: list[Item] = []
        self.returned: set[int] = set()
        self.dead_lettered: list[tuple[int, str]] = []
        self.delivered: list[Item] = []
        self.consuming = False
        self.credit = 0

    def full(self, messages: int = 0, size: int = 0) -> bool:
        """There would be too many messages, or too many bytes, with one of this size."""
        if self.messages is not None and len(self.ready) + messages > self.messages:
            return True
        return self.bytes is not None and sum(item.size for item in self.ready) + size > self.bytes

    def refuses(self, size: int) -> bool:
        return self.overflow != "drop-head" and self.full(1, size)

    def drop_exhausted(self, item: Item, reason: str) -> None:
        if self.dead_letters:
            self.dead_lettered.append((item.serial, reason))

    def shorten(self) -> None:
        """The head goes while there is too much."""
        while self.overflow == "drop-head" and self.ready and self.full():
            self.drop_exhausted(self.ready.pop(0), "maxlen")

    def expire(self, now: int, *, sparing: bool = False) -> None:
        """At the head only, what is due goes; behind one that stays everything stays. Requeued messages are not
        spared."""
        while self.ready and self.ready[0].expires_at:
            if self.ready[0].expires_at > now - (sparing and self.ready[0].serial not in self.returned):
                break
            self.drop_exhausted(self.ready.pop(0), "expired")

    def hand_out(self, now: int) -> None:
        """Consumers with credit get the head, even in the moment it expires in, once; then what is due goes."""
        while self.ready:
            self.expire(now, sparing=True)
            if not self.ready or not self.consuming or self.credit <= 0:
                break
            self.credit -= 1
            item = self.ready.pop(0)
            self.delivered.append(item)
            self.held.append(item)
        self.expire(now)

    def publish(self, item: Item, now: int) -> None:
        """One message is published."""
        if self.refuses(item.size):
            if self.overflow == "reject-publish-dlx":
                self.drop_exhausted(item, "maxlen")
            return
        insort(self.ready, item)
        if self.overflow == "drop-head" and self.full():
            self.hand_out(now)
            self.shorten()
        if self.at_once and self.consuming:
            self.hand_out(now)


VALUES: dict[str, tuple[Any, ...]] = {
    "max_priority": (None, None, 0, 1, 3, 255),
    "message_ttl": (None, None, None, 0, 50, 300),
    "max_length": (None, None, 0, 1, 3, 9),
    "max_length_bytes": (None, None, None, 0, 40, 300),
    "overflow": (None, "drop-head", "reject-publish", "reject-publish-dlx"),
    "single_active_consumer": (None, True),
    "dead_letters": (True, False),
}


class LimitedQueue:
    """A queue with these arguments and its dead-letter queue, beside the rules that say what it must do."""

    def __init__(self, arguments: dict[str, Any], definitions: RecordedDefinitions | None = None) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="leveret-limits-"))
        self.core = Core(self.directory / "messages", WINDOW, definitions)
        self.serial = 0
        self.bodies: dict[int, bytes] = {}
        self.rules = Rules(arguments)
        self.core.queue(DEAD_LETTERS)
        self.core.queue(QUEUE, **arguments)
        self._attach()

    def _attach(self) -> None:
        self.queue, self.dead_letter_queue = self.core.queue_named(QUEUE), self.core.queue_named(DEAD_LETTERS)
        self.reader = Reader()
        self.consumer: Consumer | None = None
        self.rules.consuming, self.rules.credit = False, 0

    def publish(self, count: int, size: int, priority: int, expiration: int | None, persistent: bool) -> None:
        """Publish messages in one turn, as a session does: a queue that is full is asked first."""
        now = self.core.clock.now()
        for _ in range(count):
            self.serial += 1
            body = self.bodies[self.serial] = b"%d." % self.serial + b"x" * size
            lives = [time for time in (self.rules.ttl, expiration) if time is not None]
            item = Item(
                -min(priority, self.rules.highest),
                self.serial,
                len(body),
                now + min(lives) if lives else 0,
                persistent,
            )
            properties = {} if expiration is None else {"expiration": str(expiration)}
            made = message(body, key=QUEUE, persistent=persistent, priority=priority, **properties)
            refused = self.queue.limits.on_length and self.queue.limits.refuses(made)
            assert refused == self.rules.refuses(item.size)
            if refused:
                self.queue.limits.turn_away(made)
            else:
                self.queue.publish(made)
            self.rules.publish(item, now)
        self._end_turn()

    def get(self, no_ack: bool) -> None:
        """Take one message. Expired messages that come to the head by it go with it."""
        now = self.core.clock.now()
        self.rules.expire(now)
        body = self.reader.get(self.queue, no_ack=no_ack)
        if not self.rules.ready:
            assert body is None
            return
        item = self.rules.ready.pop(0)
        assert body == self.bodies[item.serial]
        if not no_ack:
            self.rules.held.append(item)
        self.rules.expire(now)
        self._end_turn()

    def consume(self, prefetch: int) -> None:
        """Subscribe, or end the subscription: what was delivered stays out."""
        rules = self.rules
        if self.consumer is None:
            self.consumer = self.reader.consume(self.queue, prefetch=prefetch)
            rules.consuming, rules.credit = True, prefetch
        else:
            self.queue.consumers.remove(self.consumer)
            self.consumer, rules.consuming = None, False
        self._end_turn()

    def settle(self, how: str, picks: list[int]) -> None:
        """Acknowledge or reject some of what is out, in any order."""
        for pick in picks:
            if self.rules.held:
                item, entry = self._pick(pick)
                if how == "ack":
                    self.queue.settle([entry])
                else:
                    self.queue.reject([entry])
                    self.rules.drop_exhausted(item, "rejected")
                self._count_settled(entry.consumer)
        self._end_turn()

    def requeue(self, picks: list[int]) -> None:
        """Give some of what is out back in one go; a queue that is full drops its head before anybody is served."""
        back = [self._pick(pick) for pick in picks if self.rules.held]
        consumers = [entry.consumer for _, entry in back]
        self.queue.requeue([entry for _, entry in back])
        for (item, _), consumer in zip(back, consumers, strict=True):
            insort(self.rules.ready, item)
            self.rules.returned.add(item.serial)
            self._count_settled(consumer)
        self.rules.shorten()
        self._end_turn()

    def purge(self) -> None:
        """Drop what is ready; nobody is told."""
        assert self.queue.purge() == len(self.rules.ready)
        self.rules.ready.clear()
        self._end_turn()

    def wait(self, milliseconds: int) -> None:
        """Let time pass."""
        self.core.advance(milliseconds)
        self._end_turn()

    def forget_contents(self) -> None:
        """Let go of what is in memory and on disk, as a channel with many deliveries does."""
        for entry in self.reader.held:
            entry.release()

    def commit(self) -> None:
        """Bring everything to disk."""
        self.core.commit()

    def restart(self) -> None:
        """Stop in order and start again: what is persistent is ready again, and held to the limits."""
        rules = self.rules
        self.core.restart()
        self._attach()
        rules.ready = sorted(item for item in (*rules.ready, *rules.held) if item.persistent)
        rules.returned.update(item.serial for item in rules.held)
        rules.held.clear()
        self.core.advance(RESTORE_SPREAD_MILLISECONDS)
        rules.expire(self.core.clock.now())
        rules.shorten()
        self._end_turn()

    def counts_agree(self) -> None:
        """The queue counts what the rules have."""
        rules = self.rules
        assert len(self.queue.ready_messages) == len(rules.ready)
        assert self.queue.ready_messages.bytes == sum(item.size for item in rules.ready)
        assert self.queue.unacked == len(rules.held)

    def drain(self) -> None:
        """Restart, and take what is left, message by message."""
        self.restart()
        while self.rules.ready:
            self.get(no_ack=True)

    def close(self) -> None:
        """Let go of the files, which must be sound."""
        self.core.close()
        report = verify(self.directory / "messages")
        shutil.rmtree(self.directory)
        assert report.problems == []

    def _pick(self, pick: int) -> tuple[Item, Any]:
        index = pick % len(self.rules.held)
        return self.rules.held.pop(index), self.reader.held.pop(index)

    def _count_settled(self, consumer: Any) -> None:
        """Credit comes back to the consumer that had the message, if it is the one that is there."""
        if consumer is not None:
            consumer.settled()
            self.rules.credit += consumer is self.consumer

    def _end_turn(self) -> None:
        """Deliveries happen and dead letters are published; both must be those of the list, in its order."""
        self.core.end_turn()
        self.rules.hand_out(self.core.clock.now())
        assert self.reader.bodies == [self.bodies[item.serial] for item in self.rules.delivered]
        self.reader.seen.clear()
        self.rules.delivered.clear()
        assert self._take_dead_letters() == self.rules.dead_lettered
        self.rules.dead_lettered.clear()

    def _take_dead_letters(self) -> list[tuple[int, str]]:
        """Empty the dead-letter queue."""
        found, reader = [], Reader()
        while (entry := self.dead_letter_queue.get(reader, no_ack=True)) is not None:
            assert entry.message is not None
            properties = decode_properties(entry.message.header)
            assert properties.expiration is None
            headers: Any = properties.headers
            serial = int(entry.message.body.split(b".", 1)[0])
            assert entry.message.body == self.bodies[serial]
            found.append((serial, headers["x-death"].value[0].value["reason"].value.decode()))
        self.core.end_turn()
        return found


def steps_on(queue: LimitedQueue, chance: random.Random) -> list[Step]:
    """Return steps on a queue. Messages come oftener than they go, so that limits are felt, and restarts are rare."""

    def some() -> list[int]:
        return [chance.randrange(20) for _ in range(chance.randint(1, 5))]

    def publish() -> None:
        priority, expiration = chance.choice((0, 0, 1, 2, 3, 9, 255)), chance.choice((None, None, None, 0, 20, 50, 400))
        persistent = chance.random() < 0.8
        queue.publish(chance.randint(1, 4), chance.choice((0, 20, 150)), priority, expiration, persistent)

    return [
        (14, publish),
        (6, lambda: queue.get(no_ack=chance.random() < 0.3)),
        (3, lambda: queue.consume(chance.randint(1, 6))),
        (6, lambda: queue.settle(chance.choice(("ack", "reject")), some())),
        (6, lambda: queue.requeue(some())),
        (1, queue.purge),
        (4, lambda: queue.wait(chance.choice((1, 10, 19, 50, 500)))),
        (2, queue.forget_contents),
        (3, queue.commit),
        (2, queue.restart),
    ]


def combination(chance: random.Random) -> dict[str, Any]:
    """Arguments by chance, with a dead-letter queue or without."""
    given = {name: chance.choice(values) for name, values in VALUES.items()}
    dead_lettering = (
        {"dead_letter_exchange": "", "dead_letter_routing_key": DEAD_LETTERS} if given.pop("dead_letters") else {}
    )
    return {name: value for name, value in given.items() if value is not None} | dead_lettering


def walk(seed: int, steps: int) -> None:
    """A run on one queue of any kind."""
    chance = random.Random(seed)
    queue = LimitedQueue(combination(chance))
    try:
        take_steps(chance, steps_on(queue, chance), steps, queue.counts_agree)
        queue.drain()
    finally:
        queue.close()


@pytest.mark.parametrize(
    ("seed", "steps"),
    [
        *((seed, 60) for seed in range(30)),
        *(pytest.param(seed, 400, marks=pytest.mark.slow) for seed in range(1000, 1005)),
    ],
)
def test_walks(seed: int, steps: int) -> None:
    walk(seed, steps)
