"""From an exchange and a routing key to queues.

An exchange may lead to other exchanges, in circles too: each is asked once. One that matches nothing passes
the message to its alternate exchange. One that delays messages is asked again when their time has come. A queue
that is reached in several ways gets one copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from broker.entities.exchanges.exchange import Destination, Exchange
from broker.entities.messages.delay_header import delay_of
from broker.entities.messages.message import Message
from broker.entities.queues.queue import Queue
from broker.wire.field_tables import Table


class Routes(NamedTuple):
    """Where a message goes, and whether the next one with this key and other headers goes there too."""

    queues: tuple[Queue, ...]
    lasting: bool


def route(
    exchanges: Mapping[str, Exchange],
    start: Exchange,
    keys: Sequence[str],
    headers: Table,
    queues: Mapping[str, Queue],
    message: Message | None = None,
) -> Routes:
    """The queues a message reaches from `start`, each once, in the order they are found.

    Without the message itself it is the queues that such a one would reach, as far as that can be said.
    """
    found: dict[Queue, None] = {}
    pending, seen, lasting = [start], {start.name}, True
    while pending:
        exchange = pending.pop()
        lasting = lasting and exchange.router.by_key_alone and exchange.delays is None
        if exchange.delays is not None and delay_of(headers):
            found[exchange.delays] = None
            continue
        matched = False
        for destination in _destinations(exchange, keys, headers, queues, message):
            matched = True
            if isinstance(destination, Queue):
                found[destination] = None
            elif destination.name not in seen:
                seen.add(destination.name)
                pending.append(destination)
        alternate = None if matched or exchange.alternate is None else exchanges.get(exchange.alternate)
        if alternate is not None and alternate.name not in seen:
            seen.add(alternate.name)
            pending.append(alternate)
    return Routes(tuple(found), lasting)


def _destinations(
    exchange: Exchange, keys: Sequence[str], headers: Table, queues: Mapping[str, Queue], message: Message | None
) -> Iterable[Destination]:
    if not exchange.name:  # every queue is bound to the default exchange by its name
        return [queues[key] for key in keys if key in queues]
    return exchange.router.match(keys, headers, message)


def hand_over(message: Message, queue: Queue) -> None:
    """Put a message that no client publishes now into a queue, unless it is full and refuses."""
    if queue.limits.on_length and queue.limits.refuses(message):
        queue.limits.turn_away(message)
    else:
        queue.publish(message)
