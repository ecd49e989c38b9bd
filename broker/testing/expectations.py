"""Expectations of tests, to wait for in place of sleeping: events, the state of a queue, an idle broker.

A test waits in the broker, which looks every few milliseconds of the machine's time. If an expectation is not met in
time, the answer says what was seen instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from time import monotonic
from typing import TYPE_CHECKING, Any

import trio

from broker.admin.administration import NOT_MET
from broker.admin.protocol import AdministrationError, invalid
from broker.entities.queues.queue import Queue
from broker.entities.queues.streams.stream_queue import Stream
from broker.session.registry import Registry
from broker.testing.event_history import WORDS, Event, MessageHistory
from broker.testing.quiescence import Quiescence
from broker.testing.request_arguments import RequestArguments

if TYPE_CHECKING:
    from broker.server.net.transport import Transport

LOOK_SECONDS = 0.005
TIMEOUT_SECONDS, TIMEOUT_SECONDS_MAX = 5.0, 600.0
QUIET_MILLISECONDS, QUIET_MILLISECONDS_MAX = 20.0, 10_000.0
SHOWN_MAX = 1000

FILTERS = ("vhost", "queue", "exchange", "routing_key", "connection", "channel", "consumer_tag", "reason", "message")
"""Fields that events are filtered by."""
COUNTS = ("ready", "unacked", "messages", "consumers")
"""Counts of a queue that may be expected."""


def chosen(history: MessageHistory, arguments: RequestArguments, *, bodies: bool) -> Iterator[Event]:
    """Yield the events that a test asks for: of kind `event`, after the event `after`, with the given values of
    FILTERS, and a message with the text `body`. Raises AdministrationError `invalid`."""
    after = int(number_of(arguments, "after", 0))
    wanted = {name: arguments.value(name) for name in (*FILTERS, "event") if arguments.given(name)}
    body = arguments.optional("body")
    if wanted.get("event", WORDS[0]) not in WORDS:
        raise invalid(f"argument event: expected one of {', '.join(WORDS)}")
    for event in history.events(after, str(wanted.get("event", "")), bodies=bodies or body is not None):
        if all(_same(event.get(name), value) for name, value in wanted.items()) and body in (
            None,
            event.get("payload"),
        ):
            yield event if bodies else {name: value for name, value in event.items() if name not in BODY}


BODY = frozenset({"payload", "payload_encoding", "properties"})


def _same(found: object, wanted: object) -> bool:
    """Compare values; numbers may be written as texts, as in a query."""
    return found == wanted or (isinstance(found, int) and str(found) == wanted)


def number_of(arguments: RequestArguments, name: str, default: float, highest: float = 1e18) -> float:
    """Return a number argument, which may be a text, or the default. Raises AdministrationError `invalid`."""
    if not arguments.given(name):
        return default
    value = arguments.value(name)
    try:
        return RequestArguments({name: float(value)} if isinstance(value, str) else {name: value}).number(name, highest)
    except ValueError:
        raise invalid(f"argument {name}: expected a number") from None


class Expectations:
    """Waits for expectations of one broker."""

    def __init__(
        self, registry: Registry, history: MessageHistory, quiescence: Quiescence, transports: Mapping[Transport, None]
    ) -> None:
        self._registry = registry
        self._broker = registry.broker
        self._history = history
        self._quiescence = quiescence
        self._transports = transports

    def history(self, arguments: RequestArguments) -> dict[str, Any]:
        """Return the events that are asked for, the oldest `limit` of them."""
        bodies = arguments.value("bodies") in (True, "true") if arguments.given("bodies") else False
        limit = int(number_of(arguments, "limit", SHOWN_MAX))
        events = list(islice(chosen(self._history, arguments, bodies=bodies), limit))
        return {"events": events, "first": self._history.first, "last": self._history.last}

    async def expect(self, arguments: RequestArguments) -> dict[str, Any]:
        """Wait for events, or for a state of a queue. Raises AdministrationError `not_met`."""
        if arguments.given("event"):
            return await self._expect_events(arguments)
        if arguments.given("queue"):
            return await self._expect_queue(arguments)
        raise invalid("expected the argument event, or queue with one of " + ", ".join(COUNTS))

    async def _expect_events(self, arguments: RequestArguments) -> dict[str, Any]:
        count, exactly = int(number_of(arguments, "count", 1)), bool(arguments.flag("exactly"))

        looked_at = -1

        def look() -> list[Event] | None:
            nonlocal looked_at
            if looked_at == self._history.last:
                return None
            looked_at = self._history.last
            found = list(chosen(self._history, arguments, bodies=True))
            return found if (len(found) == count if exactly else len(found) >= count) else None

        found = await self._wait(look, arguments, lambda: self._seen(arguments, count))
        return {"events": found[:SHOWN_MAX], "last": self._history.last}

    def _seen(self, arguments: RequestArguments, count: int) -> str:
        """Return a sentence about the events seen in place of `count` expected ones."""
        found = sum(1 for _ in chosen(self._history, arguments, bodies=False))
        happened = Counter(event["event"] for event in self._history.events(int(number_of(arguments, "after", 0))))
        counts = ", ".join(f"{word} {number}" for word, number in happened.items()) or "nothing"
        return f"expected {count} of these events, saw {found}; in all there were: {counts}{self._queues_shown()}"

    def _queues_shown(self) -> str:
        queues = (queue for vhost in self._broker.vhosts.values() for queue in vhost.queues.values())
        return "".join(f"; {_state(queue)}" for queue in islice(queues, 20))

    async def _expect_queue(self, arguments: RequestArguments) -> dict[str, Any]:
        vhost, name = arguments.optional("vhost") or "/", arguments.text("queue")
        wanted = {count: int(arguments.number(count)) for count in COUNTS if arguments.given(count)}
        if not wanted:
            raise invalid("expected of a queue one of " + ", ".join(COUNTS))

        def counts() -> dict[str, int] | None:
            found = self._broker.vhosts[vhost].queues.get(name) if vhost in self._broker.vhosts else None
            return None if found is None else _counts(found)

        def look() -> dict[str, int] | None:
            found = counts()
            return found if found is not None and wanted.items() <= found.items() else None

        def seen() -> str:
            found = counts()
            instead = f"there is no queue '{name}' in vhost '{vhost}'" if found is None else f"saw {_listed(found)}"
            return f"expected {_listed(wanted)} of queue '{name}', {instead}"

        return {"queue": name, **(await self._wait(look, arguments, seen))}

    async def idle(self, arguments: RequestArguments) -> dict[str, Any]:
        """Wait until nothing has been left to do for `quiet_milliseconds`. Raises AdministrationError `not_met`."""
        quiet = number_of(arguments, "quiet_milliseconds", QUIET_MILLISECONDS, QUIET_MILLISECONDS_MAX) / 1000
        since, last = monotonic(), self._history.last

        def look() -> bool | None:
            nonlocal since, last
            if self._history.last != last or next(self._left_to_do(), None) is not None:
                since, last = monotonic(), self._history.last
            return monotonic() >= since + quiet or None

        def seen() -> str:
            left = list(islice(self._left_to_do(), 10)) or ["events went on"]
            return f"expected nothing to be left to do, saw: {'; '.join(left)}"

        began = monotonic()
        await self._wait(look, arguments, seen)
        return {"milliseconds": round((monotonic() - began) * 1000, 3), "last": last}

    def _left_to_do(self) -> Iterator[str]:
        """Yield what is left to do: in the broker, on its disk, to and from its clients."""
        if self._quiescence.due:
            yield "work that is due"
        if self._quiescence.unwritten:
            yield "writes on their way to the disk"
        for transport in self._transports:
            if transport.unread:
                yield f"connection {transport.connection.peer} has sent what is not read yet"
            if transport.sending:
                yield f"connection {transport.connection.peer} has not taken what was sent"
        for connection in self._registry.connections:
            unanswered = sum(
                channel.confirms.unanswered for channel in connection.channels.values() if channel.confirms
            )
            if unanswered:
                yield f"connection {connection.peer} waits for {unanswered} confirms"
        for vhost in self._broker.vhosts.values():
            for queue in vhost.queues.values():
                if queue.unacked or (queue.ready and len(queue.consumers) and not isinstance(queue, Stream)):
                    yield _state(queue)

    async def _wait(self, look: Callable[[], Any], arguments: RequestArguments, seen: Callable[[], str]) -> Any:
        """Return the result of `look` once it is not None. Raises AdministrationError `not_met`: `seen`."""
        seconds = number_of(arguments, "timeout_seconds", TIMEOUT_SECONDS, TIMEOUT_SECONDS_MAX)
        until = monotonic() + seconds
        while (found := look()) is None:
            if monotonic() >= until:
                raise AdministrationError(NOT_MET, f"within {seconds:g} s: {seen()}")
            await trio.sleep(LOOK_SECONDS)
        return found


def _counts(queue: Queue) -> dict[str, int]:
    values = queue.ready, queue.unacked, queue.messages, len(queue.consumers)
    return dict(zip(COUNTS, values, strict=True))


def _state(queue: Queue) -> str:
    return f"queue '{queue.name}' has {_listed(_counts(queue))}"


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


EVENT_ARGUMENTS: Sequence[str] = (*FILTERS, "event", "after", "body")
