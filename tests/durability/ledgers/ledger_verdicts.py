"""Problems of the messages that a broker holds after a restart, by the ledger of those that it owes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from tests.durability.ledgers.message_ledger import ALIVE, MessageLedger, State, dead
from tests.durability.ledgers.oracle import Debt, Found, Kind, Order, Owed, Place, Unit, Verdict, verdicts
from tests.durability.ledgers.topology import CLIENTS, DEAD, LOG, TX_DEAD, WAITING_DEAD_LETTERS, place_in

UNORDERED = (DEAD, WAITING_DEAD_LETTERS, TX_DEAD)
"""Queues whose messages come in the order in which they died."""


def problems(
    ledger: MessageLedger,
    held: Mapping[str, list[int]],
    log: Mapping[int, int],
    counts: Mapping[int, int],
    *,
    there: Collection[str] | None = None,
) -> list[str]:
    """Return problems of the queues' contents, the stream's offsets and the quorum queue's delivery counts.

    `there`: the queues that there are, where a message may be gone because its queue is.
    """
    return [
        *(verdict.text for verdict in wrong_messages(ledger, held, there=there)),
        *_of_log(ledger, log),
        *_of_counts(ledger, counts),
    ]


def wrong_messages(
    ledger: MessageLedger, held: Mapping[str, list[int]], *, there: Collection[str] | None = None
) -> Iterator[Verdict]:
    """Yield problems of the queues' contents as verdicts."""
    found = {queue: list(map(Found, numbers)) for queue, numbers in held.items()}
    for verdict in verdicts(debt(ledger), found):
        if there is None or verdict.kind is not Kind.LOST or verdict.queue in there:
            yield verdict


def debt(ledger: MessageLedger) -> Debt:
    """Return the debt. A rejected message is here or among the dead letters, and not in both."""

    def why_not(queue: str, number: int) -> str:
        state = ledger.places.get((queue, number))
        return f"is {state and state.value}"

    return Debt([*_moving(ledger), *_staying(ledger)], list(_units(ledger)), _order, why_not)


def _moving(ledger: MessageLedger) -> Iterator[Owed]:
    for place, must in ledger.moved.items():
        queues = [queue for queue, number in (place, dead(place)) if ledger.places.get((queue, number)) in ALIVE]
        yield Owed(place[1], frozenset(queues), must, note=", which was to move to the dead letters")


def _staying(ledger: MessageLedger) -> Iterator[Owed]:
    moving = {*ledger.moved, *map(dead, ledger.moved)}
    for place, state in ledger.places.items():
        if state is State.CERTAIN or (state in ALIVE and place not in moving):
            yield Owed(place[1], frozenset((place[0],)), state is State.CERTAIN)


def _units(ledger: MessageLedger) -> Iterator[Unit]:
    for transaction in ledger.committing:
        added = [*transaction.puts, *map(dead, transaction.moves)]
        removed = [*transaction.takes, *transaction.moves]
        yield Unit(_each(added), _each(removed))


def _each(places: list[Place]) -> list[frozenset[Place]]:
    return [frozenset((place,)) for place in places]


def _order(queue: str, number: int) -> Order | None:
    return None if queue in UNORDERED else (number % CLIENTS, place_in(queue, number))


def _of_log(ledger: MessageLedger, log: Mapping[int, int]) -> Iterator[str]:
    for offset, number in ledger.read.items():
        if log.get(offset) != number:
            yield f"{LOG} has not {number} at {offset}: {log}"


def _of_counts(ledger: MessageLedger, counts: Mapping[int, int]) -> Iterator[str]:
    for number, count in counts.items():
        least, most = ledger.handouts.bounds(number)
        if not least <= count <= most:
            yield f"{number} was handed out {least} to {most} times and says {int(count)}"
