"""Routing: from an exchange, routing keys and headers to queues.

Exchanges bound to each other may form circles: each is visited once. An exchange that matches no binding passes the
message to its alternate exchange. An x-delayed-message exchange routes a delayed message when it is due. A queue
reached in several ways gets one copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from broker.entities.exchanges.exchange import Destination, Exchange
from broker.entities.messages.delay_header import delay_of
from broker.entities.messages.message import Message
from broker.entities.queues.queue import Queue
from broker.wire.field_tables import Fields, Table
from storage.batch import COUNTER_BITS

_NO_HEADERS: Final[Table] = {}

SHARED_BODY_BYTES = 4096
"""Size from which a body that goes to several durable queues is stored once."""


class Routes(NamedTuple):
    """The queues of a message; `lasting`: the routing key alone decided, so the next message with it goes there too."""

    queues: tuple[Queue, ...]
    lasting: bool


class Routing:
    """The exchanges and queues of one virtual host by name, and the routing between them."""

    def __init__(self, boot: int, body_ids: Iterator[int]) -> None:
        self.exchanges: dict[str, Exchange] = {}
        self.queues: dict[str, Queue] = {}
        self._boot = boot
        self._body_ids = body_ids

    def route(self, start: Exchange, keys: Iterable[str], headers: Fields, message: Message | None = None) -> Routes:
        """Return the queues that a message reaches from `start`, each once, in the order in which they are found.

        Without `message` they are the queues that such a message would reach; types that read it are left to guess.
        """
        keys, exchanges = tuple(keys), self.exchanges
        found: dict[Queue, None] = {}
        pending, seen, lasting = [start], {start.name}, True
        while pending:
            exchange = pending.pop()
            lasting = lasting and exchange.router.by_key_alone and exchange.delays is None
            # The delay queue is the only target: it publishes to the bound queues when the message is due.
            if exchange.delays is not None and delay_of(headers):
                found[exchange.delays] = None
                continue
            matched = False
            for destination in _destinations(exchange, keys, headers, self.queues, message):
                matched = True
                if isinstance(destination, Queue):
                    found[destination] = None
                elif destination.name not in seen:
                    seen.add(destination.name)
                    pending.append(destination)
            # As in RabbitMQ, a match with an exchange counts, even if that leads to no queue.
            alternate = None if matched or exchange.alternate is None else exchanges.get(exchange.alternate)
            if alternate is not None and alternate.name not in seen:
                seen.add(alternate.name)
                pending.append(alternate)
        return Routes(tuple(found), lasting)

    def lasting_queues(self, start: Exchange, key: str) -> tuple[Queue, ...] | None:
        """Return the queues that every message with this key reaches from `start`; None if more than the key
        decides."""
        # Most publishes go from one exchange straight to queues: no walk over exchanges is needed for those.
        if start.name and start.delays is None and start.router.by_key_alone:
            found = start.router.match((key,), _NO_HEADERS, None)
            queues = [destination for destination in found if isinstance(destination, Queue)]
            if queues and len(queues) == len(found):
                return tuple(queues) if len(queues) == 1 else tuple(dict.fromkeys(queues))
        routes = self.route(start, (key,), _NO_HEADERS)
        return routes.queues if routes.lasting else None

    def share_body(self, message: Message, queues: Iterable[Queue]) -> None:
        """Have a large body that goes to several durable queues stored once."""
        if message.persistent and len(message.body) >= SHARED_BODY_BYTES and sum(q.durable for q in queues) > 1:
            message.body_id = (self._boot << COUNTER_BITS) + next(self._body_ids)


def _destinations(
    exchange: Exchange, keys: Sequence[str], headers: Fields, queues: Mapping[str, Queue], message: Message | None
) -> Sequence[Destination]:
    if not exchange.name:  # every queue is bound to the default exchange by its name
        return [queues[key] for key in keys if key in queues]
    return exchange.router.match(keys, headers, message)


def hand_over(message: Message, queue: Queue) -> None:
    """Publish a message that does not come from a client into a queue, unless that is full and refuses it, too."""
    if queue.limits.on_length and not queue.limits.publishers_only and queue.limits.refuses(message):
        queue.limits.turn_away(message)
    else:
        queue.publish(message)
