"""Sums that outlast what they are sums of: of a virtual host's channels and connections, and of the whole broker.

What belongs to a sum joins it with counters of its own, and leaves them behind when it ends: no step of a message
bumps more for it. So a sum is exact when it is asked for, costs nothing before, and never falls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from broker.entities.statistics.counters import ChannelCounters, ChannelValues, QueueTypeTotals
from broker.entities.statistics.measurements import Measurements

QUEUE_TYPES = ("classic", "quorum", "stream")
AMQP, HTTP = PROTOCOLS = ("amqp091", "http")
"""What logins come by."""


class TrafficValues(NamedTuple):
    """What has come from a client, and gone to it, at one moment; bytes as on the wire, with TLS sealed ones."""

    recv_oct: int = 0
    """Bytes received."""
    recv_cnt: int = 0
    """How many reads from the socket they came in."""
    send_oct: int = 0
    """Bytes sent."""
    send_cnt: int = 0
    """How many writes to the socket took them."""


_traffic_values = attrgetter(*TrafficValues._fields)


class Traffic:
    """The bytes of one connection: see `TrafficValues`."""

    __slots__ = (*TrafficValues._fields, "history")

    history: Any

    def __init__(self) -> None:
        self.recv_oct = self.recv_cnt = self.send_oct = self.send_cnt = 0
        self.history = None

    def values(self) -> TrafficValues:
        """What they are now."""
        return TrafficValues(*_traffic_values(self))


class Counters(Protocol):
    """Whatever counts, and says how much as a tuple of numbers."""

    def values(self) -> tuple[int, ...]: ...


C = TypeVar("C", bound=Counters)


class Sum(Generic[C]):
    """The sum of counters that come and go. `make` makes new ones of their kind."""

    def __init__(self, make: Callable[[], C]) -> None:
        self._late = make()
        self._live: dict[C, None] = {self._late: None}
        self._ended = self._late.values()

    def __len__(self) -> int:
        return len(self._live) - 1

    def join(self, counters: C) -> None:
        """Something begins to count."""
        self._live[counters] = None

    def leave(self, counters: C) -> C:
        """It has ended. Whatever is still counted for it goes to the counters that are returned."""
        if counters in self._live and counters is not self._late:
            del self._live[counters]
            self._ended = added((self._ended, counters.values()))
        return self._late

    def total(self) -> tuple[int, ...]:
        """What all have counted so far, the ended ones included."""
        return added((self._ended, *(counters.values() for counters in self._live)))


def added(values: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    """The sums of what stands in the same place."""
    return tuple(map(sum, zip(*values, strict=True)))


class VHostStatistics:
    """What has been done in one virtual host. Channels and connections join when they open."""

    __slots__ = ("channel_sum", "history", "traffic_sum")

    history: Any

    def __init__(self) -> None:
        self.history = None
        self.channel_sum = Sum(ChannelCounters)
        self.traffic_sum = Sum(Traffic)

    @property
    def in_use(self) -> bool:
        """There are channels or connections that count."""
        return len(self.channel_sum) > 0 or len(self.traffic_sum) > 0

    def channels(self) -> ChannelValues:
        """What its channels have done, those that have ended included."""
        return ChannelValues(*self.channel_sum.total())

    def traffic(self) -> TrafficValues:
        """The bytes of its connections, those that have ended included, each with its handshake."""
        return TrafficValues(*self.traffic_sum.total())


class ChurnValues(NamedTuple):
    """How much has come and gone."""

    connection_created: int = 0
    """Connections that were opened: through the handshake, and let into a virtual host."""
    connection_closed: int = 0
    channel_created: int = 0
    channel_closed: int = 0
    queue_declared: int = 0
    """Declarations, whether they made a queue, found it, or found another than was declared. Passive ones are none."""
    queue_created: int = 0
    queue_deleted: int = 0


_churn_values = attrgetter(*ChurnValues._fields)


class Churn:
    """What has come and gone since the start: see `ChurnValues`."""

    __slots__ = ChurnValues._fields

    def __init__(self) -> None:
        self.connection_created = self.connection_closed = 0
        self.channel_created = self.channel_closed = 0
        self.queue_declared = self.queue_created = self.queue_deleted = 0

    def values(self) -> ChurnValues:
        """What they are now."""
        return ChurnValues(*_churn_values(self))


class Logins:
    """Attempts to log in by one protocol."""

    __slots__ = ("failed", "succeeded")

    def __init__(self) -> None:
        self.succeeded = self.failed = 0

    def count(self, *, succeeded: bool) -> None:
        """One more attempt."""
        if succeeded:
            self.succeeded += 1
        else:
            self.failed += 1

    def reset(self) -> None:
        """Begin anew, because an operator wants it."""
        self.succeeded = self.failed = 0


class BrokerStatistics:
    """What has been done since the start, in virtual hosts that are gone, too: it never falls.

    `queues` are totals by type of queue, `logins` by protocol: those of `QUEUE_TYPES` and `PROTOCOLS`.
    """

    def __init__(self) -> None:
        self.queues = {name: QueueTypeTotals() for name in QUEUE_TYPES}
        self.logins = {name: Logins() for name in PROTOCOLS}
        self.churn = Churn()
        self.measurements = Measurements()
        self._vhosts: dict[VHostStatistics, None] = {}
        self._removed: list[VHostStatistics] = []
        self._ended_channels: tuple[int, ...] = ChannelValues()
        self._ended_traffic: tuple[int, ...] = TrafficValues()

    def new_vhost(self) -> VHostStatistics:
        """The statistics of a new virtual host."""
        statistics = VHostStatistics()
        self._vhosts[statistics] = None
        return statistics

    def vhost_ended(self, statistics: VHostStatistics) -> None:
        """A virtual host is removed. Those removed before it are forgotten, if their last channels have ended."""
        for ended in [removed for removed in self._removed if not removed.in_use]:
            self._removed.remove(ended)
            del self._vhosts[ended]
            self._ended_channels = added((self._ended_channels, ended.channels()))
            self._ended_traffic = added((self._ended_traffic, ended.traffic()))
        self._removed.append(statistics)

    def channels(self) -> ChannelValues:
        """What all channels have done."""
        return ChannelValues(*added((self._ended_channels, *(vhost.channels() for vhost in self._vhosts))))

    def traffic(self) -> TrafficValues:
        """The bytes of all connections."""
        return TrafficValues(*added((self._ended_traffic, *(vhost.traffic() for vhost in self._vhosts))))

    def check(self) -> None:
        """Raise AssertionError unless channels and queues have counted the same of what both of them count."""
        channels = self.channels()
        for name in ("deliver", "deliver_no_ack", "get", "get_no_ack", "get_empty", "redeliver", "ack"):
            of_queues, of_channels = sum(map(attrgetter(name), self.queues.values())), getattr(channels, name)
            assert of_queues == of_channels, f"{name}: queues have counted {of_queues}, channels {of_channels}"
        assert channels.confirm <= channels.publish_confirmed <= channels.publish, (
            f"publishes are counted as {channels}"
        )
