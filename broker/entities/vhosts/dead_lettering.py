"""Where dead letters go: through the dead-letter exchange of the queue in which their messages died."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from broker.entities.exchanges.routing import Routing, hand_over
from broker.entities.messages import death_header
from broker.entities.messages.death_header import DeadLetter
from broker.entities.messages.message import SHORT_STRING_BYTES, Message
from broker.entities.queues.delay_queue import DelayQueue

if TYPE_CHECKING:
    from broker.entities.exchanges.exchange import Exchange
    from broker.entities.queues.queue import Queue
    from broker.entities.scheduling.turn import Turn


class DeadLettering:
    """Publishes the dead letters of one virtual host."""

    def __init__(self, routing: Routing, turn: Turn, now: Callable[[], int]) -> None:
        self._routing = routing
        self._turn = turn
        self._now = now

    def publish(self, queue: Queue, messages: Sequence[Message], reason: str) -> None:
        """Publish messages that died in a queue, for a reason."""
        exchange = self._exchange(queue)
        if exchange is None:
            return
        self._turn.dead_letter_depth += 1
        try:
            for alike in death_header.alike(messages):
                dead_letter = self._write(queue, alike[0], reason, exchange)
                self._post(exchange, dead_letter, [dead_letter.of(message) for message in alike])
        finally:
            self._turn.dead_letter_depth -= 1

    def publish_for_certain(self, queue: Queue, message: Message, reason: str) -> bool:
        """The same with one; False, and nothing published, unless it has targets and all of them take it."""
        exchange = self._exchange(queue)
        if exchange is None:
            return False
        dead_letter = self._write(queue, message, reason, exchange)
        copy = dead_letter.of(message)
        routes = self._routing.route(exchange, dead_letter.keys, dead_letter.headers, copy)
        targets = [target for target in routes.queues if not _in_circle(dead_letter, target)]
        if not targets or any(target.limits.refuses(copy) for target in targets):
            return False
        self._routing.share_body(copy, targets)
        for target in targets:
            target.publish(copy)
        return True

    def _exchange(self, queue: Queue) -> Exchange | None:
        key = queue.arguments.dead_letter_routing_key
        if key is not None and len(key.encode("utf-8", "surrogateescape")) > SHORT_STRING_BYTES:
            return None  # nothing can be published with it
        name = queue.arguments.dead_letter_exchange
        return None if name is None else self._routing.exchanges.get(name)

    def _write(self, queue: Queue, message: Message, reason: str, exchange: Exchange) -> DeadLetter:
        now, key = self._now(), queue.arguments.dead_letter_routing_key
        return death_header.write(message, queue.name, reason, now, exchange.name, key)

    def _post(self, exchange: Exchange, dead_letter: DeadLetter, copies: Sequence[Message]) -> None:
        """Route dead letters that differ in their bodies only."""
        routes = self._routing.route(exchange, dead_letter.keys, dead_letter.headers, copies[0])
        if len(copies) > 1 and not routes.lasting:  # each may go elsewhere
            for copy in copies:
                self._post(exchange, dead_letter, (copy,))
            return
        targets = [target for target in routes.queues if not _in_circle(dead_letter, target)]
        for copy in copies:
            self._routing.share_body(copy, targets)
        for target in targets:
            if not target.limits.on_length:
                target.publish_all(copies)
                continue
            for copy in copies:
                hand_over(copy, target)


def _in_circle(dead_letter: DeadLetter, target: Queue) -> bool:
    return not isinstance(target, DelayQueue) and dead_letter.in_circle(target.name)
