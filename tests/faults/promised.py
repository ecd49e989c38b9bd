"""What a broker owes after its end, told by the client that speaks to it.

The workload speaks over one channel, so what it says reaches the broker in one order. Consumers bear the name of their
queue. It publishes to a queue that
nobody consumes, KEPT; the confirm of such a message says that everything before it is on disk too: acknowledgements,
rejections, purges. What a queue may or must hold is one word for each message in each queue. A message that waits in
the exchange DELAYING counts as one of LATE, the queue behind it: it has to be in one of the two.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from broker.wire.methods import (
    BasicAck,
    BasicDeliver,
    BasicNack,
    BasicPublish,
    ConfirmSelect,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
)
from tests.support.client import Message

KEPT, WORK, RANKED, DEAD, COPY, PURGED, LOG = "kept", "work", "ranked", "dead", "copy", "purged", "log"
LATE = "late"
QUORUM, LETTERS = "quorum", "letters that wait in quorum"
BOTH = "both"
DELAYING = "delaying"
PRIORITIZED, PRIORITY_MAX = (RANKED, PURGED), 3
READER = "reader"
"""The tag of whoever reads the stream LOG."""

TARGETS = {("", name): (name,) for name in (KEPT, WORK, RANKED, QUORUM, PURGED)} | {
    (BOTH, ""): (WORK, COPY, LOG),
    (DELAYING, ""): (LATE,),
}


class State(enum.Enum):
    """What may be said of a message in a queue."""

    POSSIBLE = "published, not confirmed"
    CERTAIN = "confirmed"
    LEAVING = "acknowledged, or purged; not known to be on disk"
    GONE = "known to have left"
    NEVER = "transient"


Place = tuple[str, int]
"""A queue and a message's number."""


def body_of(number: int, size: int) -> bytes:
    """A body that says which message it is, and of what size."""
    return (b"%d:%d:" % (number, size)).ljust(size, b"x")


def priority_of(number: int) -> int:
    """The priority a message is published with; some are beyond the highest."""
    return number * 7 % (PRIORITY_MAX + 2)


def number_of(body: bytes) -> int:
    """The message a body belongs to. Raises AssertionError when it is not as it was published."""
    number, size = map(int, body.split(b":", 2)[:2])
    assert body == body_of(number, size), f"message {number} is torn"
    return number


class BrokerLedger:
    """Follows a conversation; knows what each queue may and must hold."""

    def __init__(self) -> None:
        self.places: dict[Place, State] = {}
        self.moved: dict[Place, bool] = {}  # dead letters on their way: whether it must be here or there
        self.queues: dict[str, bool | None] = {}  # must it be there? None: it may
        self._published: dict[int, tuple[tuple[Place, ...], int]] = {}  # by publish tag, with the moment
        self._tag = 0
        self._moment = 0
        self._left: dict[Place, int] = {}
        self._moved_at: dict[Place, int] = {}
        self._delivered: dict[int, Place] = {}
        self._asked: list[str] = []
        self.read: dict[int, int] = {}  # what readers of the log have seen, by offset
        self._handed: dict[int, list[int]] = {}  # when each message of the quorum queue was handed out
        self._handed_certainly: dict[int, int] = {}

    def follow(self, client: bool, method: Any, message: Message | None) -> None:
        """Take in what was said next, by the client or by the broker."""
        self._moment += 1
        handler = (_FROM_CLIENT if client else _FROM_BROKER).get(type(method))
        if handler:
            handler(self, method, message)

    # From the client

    def _connected(self, _method: ConfirmSelect, _message: Message | None) -> None:
        """A new life: tags begin anew, and nobody knows whether what was about to leave has left."""
        self._published.clear()
        self._delivered.clear()
        self._asked.clear()
        self._tag = 0
        unsure = [*self._left, *(_dead(place) for place in self._moved_at)]
        self.places |= dict.fromkeys(unsure, State.POSSIBLE)
        self._left.clear()
        self._moved_at.clear()
        self.moved.clear()

    def _publish(self, method: BasicPublish, message: Message | None) -> None:
        assert message is not None
        self._tag += 1
        number = number_of(message.body)
        targets = TARGETS.get((method.exchange, method.routing_key), (method.routing_key,))
        persistent = message.properties.delivery_mode == 2
        places = tuple((queue, number) for queue in targets)
        for place in places:
            self.places[place] = State.POSSIBLE if persistent or place[0] in (LOG, QUORUM) else State.NEVER
        self._published[self._tag] = places, self._moment

    def _ack(self, method: BasicAck, _message: Message | None) -> None:
        for place in self._taken(method.delivery_tag, method.multiple):
            self._leave(place)

    def _nack(self, method: BasicNack, _message: Message | None) -> None:
        for place in self._taken(method.delivery_tag, method.multiple):
            before = self.places[place]
            if method.requeue or before is State.NEVER:
                continue
            self.moved[place] = before is State.CERTAIN or self.moved.get(place, False)
            self._moved_at[place] = self._moment
            self._leave(place)
            self.places[_dead(place)] = State.POSSIBLE

    def _purge(self, method: QueuePurge, _message: Message | None) -> None:
        for place in [place for place in self.places if place[0] == method.queue]:
            self._leave(place)

    def _declare(self, method: QueueDeclare, _message: Message | None) -> None:
        self.queues.setdefault(method.queue, None)

    def _delete(self, method: QueueDelete, _message: Message | None) -> None:
        self._asked.append(method.queue)
        self.queues[method.queue] = None
        for place in [place for place in self.places if place[0] == method.queue]:
            self._leave(place)

    def _taken(self, tag: int, multiple: bool) -> list[Place]:
        tags = [held for held in self._delivered if held <= tag] if multiple else [tag]
        return [self._delivered.pop(held) for held in tags]

    def _leave(self, place: Place) -> None:
        if self.places[place] in (State.POSSIBLE, State.CERTAIN, State.LEAVING):
            self.places[place] = State.LEAVING
            self._left[place] = self._moment

    # From the broker

    def _deliver(self, method: BasicDeliver, message: Message | None) -> None:
        assert message is not None
        if method.consumer_tag == READER:
            self._read_from_log(message)
            return
        queue, number = self._delivered[method.delivery_tag] = method.consumer_tag, number_of(message.body)
        if queue == QUORUM:
            self._handed.setdefault(number, []).append(self._moment)

    def _read_from_log(self, message: Message) -> None:
        """What a reader has seen is on disk, and has its offset for good."""
        number, offset = number_of(message.body), (message.properties.headers or {})["x-stream-offset"].value
        assert self.read.setdefault(offset, number) == number, f"offset {offset} is another message's"
        self.places[LOG, number] = State.CERTAIN

    def _declared(self, method: QueueDeclareOk, _message: Message | None) -> None:
        self.queues[method.queue] = True

    def _deleted(self, _method: QueueDeleteOk, _message: Message | None) -> None:
        self.queues[self._asked.pop(0)] = False

    def _confirm(self, method: BasicAck, _message: Message | None) -> None:
        tags = (
            [tag for tag in self._published if tag <= method.delivery_tag] if method.multiple else [method.delivery_tag]
        )
        for tag in tags:
            places, moment = self._published.pop(tag)
            for place in places:
                if self.places[place] is State.POSSIBLE:
                    self.places[place] = State.CERTAIN
                if place[0] == KEPT and self.places[place] is State.CERTAIN:
                    self._on_disk(moment)

    def _on_disk(self, moment: int) -> None:
        """Everything said before a moment has been committed."""
        for place in [place for place, left in self._left.items() if left < moment]:
            del self._left[place]
            self.places[place] = State.GONE
        for place in [place for place, moved in self._moved_at.items() if moved < moment]:
            del self._moved_at[place], self.moved[place]
            self.places[_dead(place)] = State.CERTAIN
        for number, moments in self._handed.items():
            self._handed_certainly[number] = sum(handed < moment for handed in moments)

    # After a crash

    def problems(self, held: dict[str, list[int]], counts: dict[int, int]) -> list[str]:
        """What is wrong with what the queues hold, and how often the quorum queue says that it was handed out."""
        found = [f"queue {name} is not there" for name, must in self.queues.items() if must and name not in held]
        found += [f"queue {name} was deleted" for name, must in self.queues.items() if must is False and name in held]
        for name, numbers in held.items():
            found += self._problems_of(name, numbers)
        for (queue, number), state in self.places.items():
            if state is State.CERTAIN and number not in held.get(queue, ()):
                found.append(f"{queue} has lost {number}")
        log = held.get(LOG, [])
        for offset, number in self.read.items():
            if log[offset : offset + 1] != [number]:
                found.append(f"{LOG} has not {number} at {offset}: {log}")
        for number, count in counts.items():
            least, most = self._handed_certainly.get(number, 0), len(self._handed.get(number, ()))
            if not least <= count <= most:
                found.append(f"{number} was handed out {least} to {most} times and says {count}")
        for (source, number), must in self.moved.items():
            copies = [queue for queue in (source, _dead((source, number))[0]) if number in held.get(queue, ())]
            if len(copies) > 1 or (must and not copies):
                found.append(f"{number} was to move to the dead letters and is in {copies}")
        return found

    def _problems_of(self, name: str, numbers: list[int]) -> list[str]:
        found = []
        if len(set(numbers)) != len(numbers):
            found.append(f"{name} holds messages twice: {numbers}")
        if name not in (DEAD, LETTERS) and numbers != sorted(numbers, key=_place_in(name)):
            found.append(f"{name} is out of order: {numbers}")
        for number in numbers:
            state = self.places.get((name, number))
            if state in (None, State.GONE, State.NEVER):
                found.append(f"{name} holds {number}, which is {state and state.value}")
        return found


def _dead(place: Place) -> Place:
    """Where a message is when it has died in a queue. The quorum queue's letters have nowhere to go."""
    return LETTERS if place[0] == QUORUM else DEAD, place[1]


def _place_in(queue: str) -> Callable[[int], tuple[int, int]]:
    """What a queue sorts its messages by."""
    if queue in PRIORITIZED:
        return lambda number: (-min(priority_of(number), PRIORITY_MAX), number)
    return lambda number: (0, number)


_Handler = Callable[[BrokerLedger, Any, Message | None], None]

_FROM_CLIENT: dict[type, _Handler] = {
    ConfirmSelect: BrokerLedger._connected,
    BasicPublish: BrokerLedger._publish,
    BasicAck: BrokerLedger._ack,
    BasicNack: BrokerLedger._nack,
    QueuePurge: BrokerLedger._purge,
    QueueDeclare: BrokerLedger._declare,
    QueueDelete: BrokerLedger._delete,
}
_FROM_BROKER: dict[type, _Handler] = {
    BasicDeliver: BrokerLedger._deliver,
    BasicAck: BrokerLedger._confirm,
    QueueDeclareOk: BrokerLedger._declared,
    QueueDeleteOk: BrokerLedger._deleted,
}
