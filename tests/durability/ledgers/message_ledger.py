"""Messages that a broker owes after its end, by what clients and broker have said.

The ledger has one word for each message in each queue. A client says everything over one channel, so what it says
reaches the broker in one order; what different clients say does not, quite. So the confirm of a message in a queue
that nobody consumes proves that what its own client said before is on disk too: acknowledgements, rejections, purges.
Consumers bear the name of their queue.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from broker.wire import methods
from harness.clients.amqp_peer import Message
from tests.durability.ledgers.conversation import Request
from tests.durability.ledgers.oracle import Place
from tests.durability.ledgers.topology import (
    KEEPS_ALL,
    LOG,
    QUORUM,
    READER,
    TARGETS,
    UNTOUCHED,
    dead_letter_queue,
    number_of,
    refuses,
)


class State(enum.Enum):
    """Certainty about a message in a queue."""

    POSSIBLE = "published, not confirmed"
    CERTAIN = "confirmed"
    LEAVING = "acknowledged, or purged; not known to be on disk"
    GONE = "known to have left"
    NEVER = "transient, refused, or published in a transaction that is not committed"


ALIVE = (State.POSSIBLE, State.CERTAIN, State.LEAVING)

NEVER_CERTAIN = 1 << 62
"""In place of the moment at which a message was handed out that may have been forgotten in a crash."""


@dataclass
class Transaction:
    """Changes of a transaction. `puts` are persistent; `moves` are rejected."""

    puts: list[Place] = field(default_factory=list)
    takes: list[Place] = field(default_factory=list)
    moves: list[Place] = field(default_factory=list)
    settled: dict[int, Place] = field(default_factory=dict)


@dataclass
class Session:
    """One client's channel. Moments count what was said on all of them."""

    published: dict[int, tuple[tuple[Place, ...], int]] = field(default_factory=dict)
    tag: int = 0
    delivered: dict[int, Place] = field(default_factory=dict)
    left: dict[Place, int] = field(default_factory=dict)
    moved_at: dict[Place, int] = field(default_factory=dict)
    transaction: Transaction | None = None
    gets: deque[tuple[str, bool]] = field(default_factory=deque)


class Handouts:
    """Handouts of each message of the quorum queue."""

    def __init__(self) -> None:
        self._moments: dict[int, list[int]] = {}
        self._certain: dict[int, int] = {}

    def add(self, number: int, moment: int) -> None:
        """A message goes out."""
        self._moments.setdefault(number, []).append(moment)

    def certain_before(self, moment: int) -> None:
        """Events before a moment are on disk."""
        for number, moments in self._moments.items():
            self._certain[number] = sum(handed < moment for handed in moments)

    def begin_life(self) -> None:
        """Events that were not certain may have been forgotten, and will never be certain."""
        for number, moments in self._moments.items():
            certain = self._certain.get(number, 0)
            self._moments[number] = [*sorted(moments)[:certain], *[NEVER_CERTAIN] * (len(moments) - certain)]

    def least(self) -> dict[int, int]:
        """Return the least number of handouts of each message, by its number."""
        return dict(self._certain)

    def bounds(self, number: int) -> tuple[int, int]:
        """Return the least and the largest possible number of handouts of a message."""
        return self._certain.get(number, 0), len(self._moments.get(number, ()))


class Places(dict[Place, State]):
    """Certainty about each message in each queue. To ask for one that nobody has published is a failed check."""

    def __missing__(self, place: Place) -> State:
        raise AssertionError(f"{place[0]} had {place[1]}, which nobody has published there")


class MessageLedger:
    """Follows what clients say and are told; knows what each queue may and must hold."""

    def __init__(self) -> None:
        self.places = Places()
        self.read: dict[int, int] = {}  # what readers of the log have seen, by offset
        self.moved: dict[Place, bool] = {}  # dead letters on their way: whether it must be here or there
        self._sessions: dict[int, Session] = {}
        self._moment = 0
        self.committing: list[Transaction] = []  # not answered: everything of each is done, or nothing
        self.handouts = Handouts()
        self._limited = False  # by a policy; it is for the quorum queue too

    def follow(self, connection: int, what: Any, message: Message | None, *, by_client: bool) -> None:
        """Take in what was said next, by the client or by the broker."""
        self._moment += 1
        handler = (_FROM_CLIENT if by_client else _FROM_BROKER).get(type(what))
        if handler:
            handler(self, self._sessions.setdefault(connection, Session()), what, message)

    def begin_life(self) -> None:
        """All clients connect again: nobody knows the end of the requests that were on their way."""
        for session in self._sessions.values():
            self._set([*session.left, *map(dead, session.moved_at)], State.POSSIBLE)
        for transaction in self.committing:
            self._set(
                [*transaction.puts, *transaction.takes, *transaction.moves, *map(dead, transaction.moves)],
                State.POSSIBLE,
            )
        # What is taken from now on need not be whole any more.
        self.committing = [
            Transaction([place for place in each.puts if place[0] in UNTOUCHED]) for each in self.committing
        ]
        self.handouts.begin_life()
        self._sessions.clear()

    def ask(self, connection: int, what: Any) -> Callable[[], None]:
        """Something is asked for that is answered: what to do then."""
        session, moment = self._sessions.setdefault(connection, Session()), self._moment
        if isinstance(what, methods.QueuePurge | methods.QueueDelete):
            leaving = [place for place, state in self.places.items() if place[0] == what.queue and state in ALIVE]
            for place in leaving:
                self._leave(session, place)
            return lambda: self._on_disk(session, moment + 1, only=leaving)
        if isinstance(what, methods.TxCommit):
            transaction = self._commit(session)
            return lambda: self._committed(session, transaction, moment)
        if isinstance(what, methods.TxRollback):
            transaction = session.transaction or Transaction()
            session.transaction = Transaction()
            return lambda: session.delivered.update(transaction.settled)
        return lambda: None

    def _set(self, places: Iterable[Place], state: State) -> None:
        self.places |= dict.fromkeys(places, state)

    # From the client

    def _select(self, session: Session, _method: methods.TxSelect, _message: Message | None) -> None:
        session.transaction = Transaction()

    def _publish(self, session: Session, method: methods.BasicPublish, message: Message | None) -> None:
        assert message is not None
        session.tag += 1
        number, persistent = number_of(message.body), message.properties.delivery_mode == 2
        places = tuple((queue, number) for queue in TARGETS.get(method.exchange, (method.routing_key,)))
        lasting = [place for place in places if persistent or place[0] in KEEPS_ALL]
        self._set(places, State.NEVER)
        if session.transaction is not None:
            session.transaction.puts += lasting
            return
        self._set(lasting, State.POSSIBLE)
        session.published[session.tag] = places, self._moment

    def _ack(self, session: Session, method: methods.BasicAck, _message: Message | None) -> None:
        for tag, place in _taken(session, method.delivery_tag, method.multiple):
            if session.transaction is None:
                self._leave(session, place)
            else:
                session.transaction.settled[tag] = place
                session.transaction.takes.append(place)

    def _nack(self, session: Session, method: methods.BasicNack, _message: Message | None) -> None:
        for tag, place in _taken(session, method.delivery_tag, method.multiple):
            before = self.places[place]
            if session.transaction is not None:
                session.transaction.settled[tag] = place
                session.transaction.moves += [place] if not method.requeue and before is not State.NEVER else []
            elif not method.requeue and before is not State.NEVER:
                must = before is State.CERTAIN or self.moved.get(place, False)
                self._leave(session, place)
                self.moved[place], session.moved_at[place] = must, self._moment
                self.places[dead(place)] = State.POSSIBLE

    def _administer(self, _session: Session, request: Request, _message: Message | None) -> None:
        self._limited |= request.command == "set_policy"

    def _get(self, session: Session, method: methods.BasicGet, _message: Message | None) -> None:
        session.gets.append((method.queue, method.no_ack))

    def _leave(self, session: Session, place: Place) -> None:
        if self.places[place] in ALIVE:
            self.places[place] = State.LEAVING
            session.left[place] = self._moment
            self.moved.pop(place, None)

    def _commit(self, session: Session) -> Transaction:
        """A transaction is on its way: whatever of it was not certain before proves nothing by being there or not."""
        transaction, session.transaction = session.transaction or Transaction(), Transaction()
        for place in transaction.takes:
            if self.places[place] is not State.CERTAIN:
                self._leave(session, place)
        transaction.takes = [place for place in transaction.takes if self.places[place] is State.CERTAIN]
        transaction.moves = [place for place in transaction.moves if self.places[place] is State.CERTAIN]
        self._set(transaction.puts, State.POSSIBLE)
        self._set([*transaction.takes, *transaction.moves], State.LEAVING)
        self._set(map(dead, transaction.moves), State.POSSIBLE)
        self.committing.append(transaction)
        return transaction

    # From the broker

    def _deliver(self, session: Session, method: methods.BasicDeliver, message: Message | None) -> None:
        assert message is not None
        if method.consumer_tag == READER:
            self._read_from_log(message)
            return
        queue, number = session.delivered[method.delivery_tag] = method.consumer_tag, number_of(message.body)
        if queue == QUORUM:
            self.handouts.add(number, self._moment)

    def _read_from_log(self, message: Message) -> None:
        """A message seen by a reader is on disk, and has its offset for good."""
        offset, number = read_from_log(message)
        assert self.read.setdefault(offset, number) == number, f"offset {offset} is another message's"
        self.places[LOG, number] = State.CERTAIN

    def _got(self, session: Session, method: methods.BasicGetOk, message: Message | None) -> None:
        assert message is not None
        queue, no_ack = session.gets.popleft()
        if no_ack:
            self._leave(session, (queue, number_of(message.body)))
        else:
            session.delivered[method.delivery_tag] = queue, number_of(message.body)

    def _got_nothing(self, session: Session, _method: methods.BasicGetEmpty, _message: Message | None) -> None:
        session.gets.popleft()

    def _confirm(self, session: Session, method: methods.BasicAck, _message: Message | None) -> None:
        for places, moment in _answered(session, method):
            for place in places:
                if self.places[place] is State.POSSIBLE:
                    self.places[place] = State.CERTAIN
                if place[0].startswith("kept") and self.places[place] is State.CERTAIN:
                    self._on_disk(session, moment)

    def _refuse(self, session: Session, method: methods.BasicNack, _message: Message | None) -> None:
        for places, _moment in _answered(session, method):
            for queue, number in places:
                assert refuses(queue) or (queue == QUORUM and self._limited), f"{queue} has refused {number}"
            self._set(places, State.NEVER)

    def _on_disk(self, session: Session, moment: int, *, only: Iterable[Place] | None = None) -> None:
        """A client's requests before a moment are on disk; `only` for some places, if no more is known."""
        wanted = None if only is None else set(only)
        for place in [place for place, left in session.left.items() if left < moment]:
            if wanted is None or place in wanted:
                del session.left[place]
                self.places[place] = State.GONE
        if wanted is not None:
            return
        for place in [place for place, moved in session.moved_at.items() if moved < moment]:
            del session.moved_at[place]
            self.moved.pop(place, None)
            self.places[dead(place)] = State.CERTAIN
        self.handouts.certain_before(moment)

    def _committed(self, session: Session, transaction: Transaction, moment: int) -> None:
        self.committing.remove(transaction)
        self._set([*transaction.puts, *map(dead, transaction.moves)], State.CERTAIN)
        self._set([*transaction.takes, *transaction.moves], State.GONE)
        # An empty transaction waits for nothing, so an answer proves nothing of what others have said.
        self._on_disk(session, moment + 1, only=list(session.left))


def read_from_log(message: Message) -> tuple[int, int]:
    """The offset and the number of a message as a reader of the log gets it."""
    return (message.properties.headers or {})["x-stream-offset"].value, number_of(message.body)


def _answered(session: Session, method: methods.BasicAck | methods.BasicNack) -> list[tuple[tuple[Place, ...], int]]:
    """Return the places and the moment of each publish that a confirm names."""
    up_to = method.delivery_tag
    tags = [tag for tag in session.published if tag <= up_to] if method.multiple else [up_to]
    return [session.published.pop(tag) for tag in tags]


def _taken(session: Session, tag: int, multiple: bool) -> list[tuple[int, Place]]:
    """The deliveries that an acknowledgement names, which are out no more."""
    tags = [held for held in session.delivered if held <= tag] if multiple else [tag]
    return [(held, session.delivered.pop(held)) for held in tags]


def dead(place: Place) -> Place:
    """Return the place of a message rejected in a queue."""
    return dead_letter_queue(place[0]), place[1]


_Handler = Callable[[MessageLedger, Session, Any, Message | None], None]

_FROM_CLIENT: dict[type, _Handler] = {
    methods.TxSelect: MessageLedger._select,
    methods.BasicPublish: MessageLedger._publish,
    methods.BasicAck: MessageLedger._ack,
    methods.BasicNack: MessageLedger._nack,
    methods.BasicGet: MessageLedger._get,
    Request: MessageLedger._administer,
}
_FROM_BROKER: dict[type, _Handler] = {
    methods.BasicDeliver: MessageLedger._deliver,
    methods.BasicGetOk: MessageLedger._got,
    methods.BasicGetEmpty: MessageLedger._got_nothing,
    methods.BasicAck: MessageLedger._confirm,
    methods.BasicNack: MessageLedger._refuse,
}
