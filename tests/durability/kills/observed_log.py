"""The broker's event log, and its audit, held against what the client logs have.

A channel's publishes, deliveries and settlements are in the log in the order in which the broker handled them, and the
log of a boot has no holes. So it has a beginning of what each client did. Confirmed publishes are in it, and the
client's actions before them; only of the last deliveries and settlements before a kill some may be missing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from leveret_events.segment_blocks import OFFSETS_END
from leveret_spark.events.event_columns import Event
from tests.durability.kills.adapters.client_adapter import Verdict
from tests.durability.kills.adapters.client_log import GREETING, ConnectionLog, Settled

SAYS = {
    Verdict.ACK: ("ack",),
    Verdict.ACK_ALL: ("ack",),
    Verdict.REJECT: ("reject",),
    Verdict.REQUEUE: ("requeue", "drop"),
}
"""A client's settlement, and the message's end: a message that was given back too often is dropped."""
PROBLEMS_MAX = 30

Stay = tuple[int, str | None, int | None]
"""A boot, a connection and a channel."""
Place = tuple[str, int]


@dataclass
class Recorded:
    """The log's events of one connection."""

    boot: int
    published: list[Event] = field(default_factory=list)
    delivered: dict[int, Event] = field(default_factory=dict)
    settled: dict[int, str] = field(default_factory=dict)


@dataclass
class Figures:
    """Counts of comparisons, and of those in gaps."""

    connections: int = 0
    confirmed: int = 0
    delivered: int = 0
    delivered_in_gaps: int = 0
    settled: int = 0
    settled_in_gaps: int = 0
    copies: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)


class Log:
    """The events of a log, found again by connection and by message."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = events
        self.connections: dict[str, Recorded] = {}
        self.confirmed: set[int] = set()
        self.routes: dict[int, list[Event]] = defaultdict(list)
        self.origins: dict[int, int] = {}
        """The message that a dead letter, or a message whose delay is over, was before."""
        self._stays: dict[Stay, Recorded] = {}
        self._held: dict[Place, tuple[Recorded, int]] = {}
        self._leaving: list[int] = []
        for event in events:
            self._take_in(event)

    def numbers_of(self, connections: Iterable[ConnectionLog]) -> dict[int, tuple[str, int]]:
        """For each message that is in the log: which client has published it, and the client's own number."""
        return {
            event.msg_id or 0: (client_log.client, sent.number)
            for client_log in connections
            if client_log.name in self.connections
            for sent, event in zip(client_log.published, self.connections[client_log.name].published, strict=False)
        }

    def first_number(self, number: int) -> int:
        """The number under which a client published what is this now."""
        while number in self.origins:
            number = self.origins[number]
        return number

    def _take_in(self, event: Event) -> None:
        kind = event.kind
        if kind == "boot":
            self._held.clear()
            self._leaving.clear()
        elif kind == "publish":
            self._published(event)
        elif kind == "confirm":
            self.confirmed.add(event.msg_id or 0)
        elif kind == "route":
            self.routes[event.msg_id or 0].append(event)
        elif kind == "deliver":
            self._delivered(event)
        elif kind in ("deadletter", "release"):
            self._leaving.append(event.msg_id or 0)
        if kind in ("ack", "reject", "requeue", "drop"):
            stay, tag = self._held.pop(_place(event), (None, 0))
            if stay is not None and event.reason != "abandoned":
                stay.settled[tag] = kind

    def _published(self, event: Event) -> None:
        assert event.msg_id is not None
        if not event.connection:
            if self._leaving:
                self.origins[event.msg_id] = self._leaving.pop(0)
        elif (event.routing_key or "").startswith(GREETING):
            self.connections[event.routing_key or ""] = self._stay(event)
        else:
            self._stay(event).published.append(event)

    def _delivered(self, event: Event) -> None:
        """A consumer that a library has brought back may be served before the greeting comes."""
        stay, tag = self._stay(event), event.delivery_tag or 0
        stay.delivered[tag] = event
        self._held[_place(event)] = stay, tag

    def _stay(self, event: Event) -> Recorded:
        return self._stays.setdefault((event.boot, event.connection, event.channel), Recorded(event.boot))


class Comparison:
    """Collects what does not agree."""

    def __init__(self, log: Log, rows: Iterable[Any], killed: Collection[int]) -> None:
        """`rows` are the audit's, `killed` the boots that were not stopped in order."""
        self.log = log
        self.figures = Figures()
        self.problems: list[str] = []
        self._killed = killed
        self._rows: dict[Place, Any] = {(row.queue, row.position): row for row in rows}
        self._of_message: dict[int, list[Any]] = defaultdict(list)
        for row in self._rows.values():
            self._of_message[row.msg_id].append(row)
        self.figures.verdicts = Counter(row.verdict for row in self._rows.values())

    def everything(self, connections: Iterable[ConnectionLog]) -> None:
        """Hold all connections against the log, and the audit against both."""
        for client_log in connections:
            self.figures.connections += 1
            recorded = self.log.connections.get(client_log.name, Recorded(0))
            self._publishes(client_log, recorded)
            self._deliveries(client_log, recorded)
            self._settlements(client_log, recorded)
        self._sums()

    def queues(self, places: dict[str, dict[int, int]], passing: set[str]) -> None:
        """The queues hold what the audit says, save for messages that come and go by themselves."""
        told: dict[str, set[int]] = defaultdict(set)
        for (queue, position), row in self._rows.items():
            if row.verdict == "queued":
                told[queue].add(position)
        for queue, found in places.items():
            if queue not in passing and told[queue] != set(found):
                self._say(f"{queue} holds {sorted(found)}, the audit says {sorted(told[queue])}")

    def _publishes(self, client_log: ConnectionLog, recorded: Recorded) -> None:
        for number, (sent, event) in enumerate(zip(client_log.published, recorded.published, strict=False), 1):
            told = sent._replace(exchange=event.exchange, routing_key=event.routing_key, size=event.size_bytes)
            told = told._replace(persistent=event.persistent)
            if told != sent:
                self._say(f"{client_log.name}: publish {number} is {sent}, the log says {told}")
            if number in client_log.confirmed:
                self._confirmed(client_log, number, event)
        if len(recorded.published) > len(client_log.published):
            self._say(
                f"{client_log.name}: {len(client_log.published)} publishes, the log has {len(recorded.published)}"
            )
        for number in client_log.confirmed:
            if number > len(recorded.published):
                self._say(f"{client_log.name}: publish {number} was confirmed and is not in the log")

    def _confirmed(self, client_log: ConnectionLog, number: int, event: Event) -> None:
        assert event.msg_id is not None
        if event.msg_id not in self.log.confirmed:
            self._say(f"{client_log.name}: the log lacks confirm {number}")
            return
        self.figures.confirmed += 1
        rows = {row.queue: row for row in self._of_message[event.msg_id]}
        for route in self.log.routes[event.msg_id]:
            row = rows.get(route.queue)
            if route.position is not None and route.position < OFFSETS_END:
                continue
            self.figures.copies += 1
            if row is None:
                self._say(f"{client_log.name}: publish {number} has no row for {route.queue}")
            elif row.confirm_ts is None or row.publish_ts is None:
                self._say(f"{client_log.name}: publish {number} was confirmed, the audit does not know it: {row}")

    def _deliveries(self, client_log: ConnectionLog, recorded: Recorded) -> None:
        for tag, seen in client_log.delivered.items():
            event = recorded.delivered.get(tag)
            if event is None:
                self.figures.delivered_in_gaps += 1
                if tag < max(recorded.delivered, default=0):
                    self._say(f"{client_log.name}: delivery {tag} is missing among those of the log")
                self._excuse(recorded, f"{client_log.name}: delivery {tag} is not in the log")
                continue
            self.figures.delivered += 1
            if (event.queue, event.position, event.redelivered) != seen:
                self._say(f"{client_log.name}: delivery {tag} was {seen}, the log says {event}")
            elif (row := self._rows.get(_place(event))) is None or row.deliver_count < 1:
                self._say(f"{client_log.name}: delivery {tag} of {seen} is not in the audit: {row}")

    def _settlements(self, client_log: ConnectionLog, recorded: Recorded) -> None:
        said = {one.tag: one for one in client_log.settled}
        for tag, kind in recorded.settled.items():
            if tag not in said or kind not in SAYS[said[tag].verdict]:
                self._say(f"{client_log.name}: {tag} was settled by {said.get(tag)}, the log says {kind}")
        for one in said.values():
            if one.tag not in recorded.settled:
                self.figures.settled_in_gaps += 1
                self._unsettled(client_log, recorded, one)
                continue
            self.figures.settled += 1
            row = self._rows.get(_place(recorded.delivered[one.tag]))
            if recorded.settled[one.tag] == "ack" and (row is None or row.ack_count < 1):
                self._say(f"{client_log.name}: {one.tag} was acknowledged, the audit does not know it: {row}")

    def _unsettled(self, client_log: ConnectionLog, recorded: Recorded, one: Settled) -> None:
        """Settlements before a publish that is in the log are there; nobody knows if the last ones came."""
        if one.behind < len(recorded.published):
            self._say(f"{client_log.name}: the log lacks {one}, and has {len(recorded.published)} publishes")

    def _sums(self) -> None:
        """The audit counts what the log has."""
        for kind, column in (("deliver", "deliver_count"), ("ack", "ack_count")):
            logged = sum(event.kind == kind and (event.position or 0) >= OFFSETS_END for event in self.log.events)
            told = sum(getattr(row, column) for row in self._rows.values())
            if logged != told:
                self._say(f"the log has {logged} events {kind}, the audit counts {told}")

    def _excuse(self, recorded: Recorded, complaint: str) -> None:
        """Nothing is wrong if the boot was killed; of a connection that is not in the log, no boot is known."""
        if recorded.boot and recorded.boot not in self._killed:
            self._say(complaint)

    def _say(self, problem: str) -> None:
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(problem)


def _place(event: Event) -> Place:
    assert event.queue is not None
    assert event.position is not None
    return event.queue, event.position
