"""What is wrong with the messages that a broker holds when it has started again, by the ledger of what it owes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.durability.ledgers.message_ledger import MessageLedger, Place, State, dead
from tests.durability.ledgers.topology import CLIENTS, DEAD, LETTERS, LOG, TX_DEAD, place_in

UNORDERED = (DEAD, LETTERS, TX_DEAD)
"""Queues whose messages come in the order in which they died."""


def problems(ledger: MessageLedger, held: Mapping[str, list[int]], counts: Mapping[int, int]) -> list[str]:
    """What is wrong with what the queues hold, and how often the quorum queue says that it was handed out."""
    places = {(queue, number) for queue, numbers in held.items() for number in numbers}
    return [
        *(problem for name, numbers in held.items() for problem in _of_queue(ledger, name, numbers)),
        *_losses(ledger, places),
        *_halves(ledger, places),
        *_of_log(ledger, held.get(LOG, [])),
        *_of_counts(ledger, counts),
    ]


def _of_queue(ledger: MessageLedger, name: str, numbers: list[int]) -> Iterator[str]:
    if len(set(numbers)) != len(numbers):
        yield f"{name} holds messages twice: {numbers}"
    for client in range(CLIENTS) if name not in UNORDERED else ():
        own = [number for number in numbers if number % CLIENTS == client]
        if own != sorted(own, key=lambda number: place_in(name, number)):
            yield f"{name} is out of order: {own}"
    for number in numbers:
        state = ledger.places.get((name, number))
        if state in (None, State.GONE, State.NEVER):
            yield f"{name} holds {number}, which is {state and state.value}"


def _losses(ledger: MessageLedger, places: set[Place]) -> Iterator[str]:
    for place, state in ledger.places.items():
        if state is State.CERTAIN and place not in places:
            yield f"{place[0]} has lost {place[1]}"


def _halves(ledger: MessageLedger, places: set[Place]) -> Iterator[str]:
    """What must be here or there, and not both; transactions that are half done."""
    for place, must in ledger.moved.items():
        copies = [queue for queue, number in (place, dead(place)) if (queue, number) in places]
        if len(copies) > 1 or (must and not copies):
            yield f"{place[1]} was to move to the dead letters and is in {copies}"
    for transaction in ledger.committing:
        done = [place in places for place in (*transaction.puts, *map(dead, transaction.moves))]
        done += [place not in places for place in (*transaction.takes, *transaction.moves)]
        if len(set(done)) > 1:
            yield f"a transaction is half done: {transaction}"


def _of_log(ledger: MessageLedger, log: list[int]) -> Iterator[str]:
    for offset, number in ledger.read.items():
        if log[offset : offset + 1] != [number]:
            yield f"{LOG} has not {number} at {offset}: {log}"


def _of_counts(ledger: MessageLedger, counts: Mapping[int, int]) -> Iterator[str]:
    for number, count in counts.items():
        least, most = ledger.handouts.bounds(number)
        if not least <= count <= most:
            yield f"{number} was handed out {least} to {most} times and says {int(count)}"
