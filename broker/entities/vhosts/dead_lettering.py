"""Dead-lettering: dead letters published to the dead-letter exchange of the queue in which their messages died."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from broker.entities.exchanges.routing import Routing, hand_over
from broker.entities.messages import death_header
from broker.entities.messages.death_header import DeadLetter
from broker.entities.messages.message import SHORT_STRING_BYTES, Message
from broker.entities.queues.delay_queue import DelayQueue
from broker.entities.queues.queue import DeadLetterGroup
from broker.entities.scheduling.background_work import STEP_COPIES

if TYPE_CHECKING:
    from broker.entities.arguments.queue_arguments import QueueArguments
    from broker.entities.exchanges.exchange import Exchange
    from broker.entities.queues.queue import Queue
    from broker.entities.scheduling.turn import Turn


COPY_HEADER_BYTES = 64
"""Writing this many bytes of a dead letter's header, with its x-death entries, takes about as long as one copy."""


class DeadLettering:
    """Publishes the dead letters of one virtual host."""

    def __init__(self, routing: Routing, turn: Turn, now: Callable[[], int], *, last_deaths: bool) -> None:
        self._routing = routing
        self._last_deaths = last_deaths
        self._turn = turn
        self._now = now

    def write(
        self, queue: Queue, messages: Sequence[Message], reason: str, arguments: QueueArguments
    ) -> list[DeadLetterGroup]:
        """Return the dead letters for the first of `messages`: see `DeadLetters`."""
        exchange = self._exchange(arguments)
        if exchange is None:
            return [DeadLetterGroup(messages, ())]
        written, copies_left, left = list[DeadLetterGroup](), STEP_COPIES, deque(death_header.alike(messages))
        while left and copies_left > 0:
            alike = left.popleft()
            dead_letter = self._write(queue, alike[0], reason, exchange, arguments)
            copies = [dead_letter.of(alike[0])]
            routes = self._routing.route(exchange, dead_letter.keys, dead_letter.headers, copies[0])
            targets = [target for target in routes.queues if not _in_circle(dead_letter, target)]
            if routes.lasting:  # the key alone decides the route, so alike messages share it
                copies += [dead_letter.of(message) for message in alike[1 : copies_left // max(1, len(targets))]]
            if len(copies) < len(alike):  # the others are routed one by one, or are too many for this step
                left.appendleft(alike[len(copies) :])
            written.append(DeadLetterGroup(copies, targets))
            copies_left -= len(copies) * max(1, len(targets)) + _header_cost(copies[0])
        return written

    def publish(self, written: Iterable[DeadLetterGroup]) -> None:
        """Publish dead letters."""
        self._turn.dead_letter_depth += 1
        try:
            for group in written:
                self._publish(group)
        finally:
            self._turn.dead_letter_depth -= 1

    def publish_for_certain(self, queue: Queue, message: Message, reason: str) -> bool:
        """Publish the dead letter of a message; False, with nothing published, unless there are targets and all
        accept."""
        exchange = self._exchange(queue.arguments)
        if exchange is None:
            return False
        dead_letter = self._write(queue, message, reason, exchange, queue.arguments)
        copy = dead_letter.of(message)
        routes = self._routing.route(exchange, dead_letter.keys, dead_letter.headers, copy)
        targets = [target for target in routes.queues if not _in_circle(dead_letter, target)]
        # All or none: a retry would give those that accepted it a second copy.
        if not targets or any(target.limits.refuses(copy) for target in targets):
            return False
        self._routing.share_body(copy, targets)
        self._turn.dead_letter_copies += len(targets) + _header_cost(copy)
        for target in targets:
            target.publish(copy)
        return True

    def _exchange(self, arguments: QueueArguments) -> Exchange | None:
        key = arguments.dead_letter_routing_key
        if key is not None and len(key.encode("utf-8", "surrogateescape")) > SHORT_STRING_BYTES:
            return None  # too long for a routing key, so nothing can be published with it
        name = arguments.dead_letter_exchange
        return None if name is None else self._routing.exchanges.get(name)

    def _write(
        self, queue: Queue, message: Message, reason: str, exchange: Exchange, arguments: QueueArguments
    ) -> DeadLetter:
        now, key = self._now(), arguments.dead_letter_routing_key
        return death_header.write(message, queue.name, reason, now, exchange.name, key, last_deaths=self._last_deaths)

    def _publish(self, group: DeadLetterGroup) -> None:
        copies, targets = group
        self._turn.dead_letter_copies += len(copies) * len(targets) + _header_cost(copies[0])
        for copy in copies:
            self._routing.share_body(copy, targets)
        for target in targets:
            if not target.limits.on_length:
                target.publish_all(copies)
                continue
            for copy in copies:
                hand_over(copy, target)


def _header_cost(dead_letter: Message) -> int:
    """Return the time to write a dead letter's header, in copies; 0 for a short one."""
    size = len(dead_letter.header)
    return size // COPY_HEADER_BYTES if size > death_header.REMEMBERED_BYTES_MAX else 0


def _in_circle(dead_letter: DeadLetter, target: Queue) -> bool:
    return not isinstance(target, DelayQueue) and dead_letter.in_circle(target.name)
