"""Totals of virtual hosts and of the whole broker, which include channels, connections and queues that have ended.

A channel or connection joins a sum with its own counters, which are added to the sum when it ends. So handling a
message raises no further counter, and a total is computed only when it is read. Totals never fall.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from broker.entities.statistics.counters import ChannelCounters, ChannelValues, QueueTypeTotals
from broker.entities.statistics.measurements import MESSAGE_BYTES, Histogram, Measurements

QUEUE_TYPES = ("classic", "quorum", "stream")
AMQP, HTTP = PROTOCOLS = ("amqp091", "http")
"""The protocols by which logins are counted."""


class TrafficValues(NamedTuple):
    """Values of one connection's traffic counters. Bytes are as on the wire: with TLS, encrypted."""

    recv_oct: int = 0
    """Bytes received."""
    recv_cnt: int = 0
    """Reads from the socket."""
    send_oct: int = 0
    """Bytes sent."""
    send_cnt: int = 0
    """Writes to the socket."""


_traffic_values = attrgetter(*TrafficValues._fields)


class Traffic:
    """The traffic counters of one connection: see `TrafficValues`."""

    __slots__ = (*TrafficValues._fields, "history")

    history: Any

    def __init__(self) -> None:
        self.recv_oct = self.recv_cnt = self.send_oct = self.send_cnt = 0
        self.history = None

    def received(self, size: int) -> None:
        """Count one read from the socket; of 0 bytes it is the end of the stream."""
        self.recv_oct += size
        self.recv_cnt += size > 0

    def sent(self, size: int) -> None:
        """Count one write to the socket."""
        self.send_oct += size
        self.send_cnt += 1

    def values(self) -> TrafficValues:
        """Return the present values."""
        return TrafficValues(*_traffic_values(self))


class Counters(Protocol):
    """A group of counters that can be read as a tuple."""

    def values(self) -> tuple[int, ...]: ...


C = TypeVar("C", bound=Counters)


class Sum(Generic[C]):
    """The sum of counters that join and leave. `make` returns new counters of their kind."""

    def __init__(self, make: Callable[[], C]) -> None:
        self._late = make()
        self._live: dict[C, None] = {self._late: None}
        self._ended = self._late.values()

    def __len__(self) -> int:
        return len(self._live) - 1

    def join(self, counters: C) -> None:
        """Add counters to the sum."""
        self._live[counters] = None

    def leave(self, counters: C) -> C:
        """Add the final values of counters to the sum; return the counters to use for anything counted later."""
        if counters in self._live and counters is not self._late:
            del self._live[counters]
            self._ended = added((self._ended, counters.values()))
        return self._late

    def total(self) -> tuple[int, ...]:
        """Return the sum, counters that have left included."""
        return added((self._ended, *(counters.values() for counters in self._live)))


def added(values: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the sums by position in the tuples."""
    return tuple(map(sum, zip(*values, strict=True)))


class VHostStatistics:
    """The totals of one virtual host. Channels and connections join when they open."""

    __slots__ = ("channel_sum", "history", "traffic_sum")

    history: Any

    def __init__(self) -> None:
        self.history = None
        self.channel_sum = Sum(ChannelCounters)
        self.traffic_sum = Sum(Traffic)

    @property
    def in_use(self) -> bool:
        """There are open channels or connections."""
        return len(self.channel_sum) > 0 or len(self.traffic_sum) > 0

    def channels(self) -> ChannelValues:
        """Return the sum of its channels' counters, closed channels included."""
        return ChannelValues(*self.channel_sum.total())

    def traffic(self) -> TrafficValues:
        """Return the sum of its connections' traffic with handshakes, closed connections included."""
        return TrafficValues(*self.traffic_sum.total())


class ChurnValues(NamedTuple):
    """Values of the churn counters."""

    connection_created: int = 0
    """Connections that completed the handshake, including connection.open."""
    connection_closed: int = 0
    channel_created: int = 0
    channel_closed: int = 0
    queue_declared: int = 0
    """Declarations, whether they created a queue, found it or were refused; passive ones are not counted."""
    queue_created: int = 0
    queue_deleted: int = 0


_churn_values = attrgetter(*ChurnValues._fields)


class Churn:
    """The churn counters since the start: see `ChurnValues`."""

    __slots__ = ChurnValues._fields

    def __init__(self) -> None:
        self.connection_created = self.connection_closed = 0
        self.channel_created = self.channel_closed = 0
        self.queue_declared = self.queue_created = self.queue_deleted = 0

    def values(self) -> ChurnValues:
        """Return the present values."""
        return ChurnValues(*_churn_values(self))


class Logins:
    """Login attempts by one protocol."""

    __slots__ = ("failed", "succeeded")

    def __init__(self) -> None:
        self.succeeded = self.failed = 0

    def count(self, *, succeeded: bool) -> None:
        """Count an attempt."""
        if succeeded:
            self.succeeded += 1
        else:
            self.failed += 1

    def reset(self) -> None:
        """Set both to 0 on an operator's request."""
        self.succeeded = self.failed = 0


class BrokerStatistics:
    """The totals of the broker since the start, including deleted virtual hosts.

    `queues`: totals by queue type (`QUEUE_TYPES`); `logins`: by protocol (`PROTOCOLS`);
    `message_sizes`: bytes of the bodies of published messages, counted with the personalities 4.2 and 4.3.
    """

    def __init__(self) -> None:
        self.queues = {name: QueueTypeTotals() for name in QUEUE_TYPES}
        self.logins = {name: Logins() for name in PROTOCOLS}
        self.churn = Churn()
        self.measurements = Measurements()
        self.message_sizes = Histogram(MESSAGE_BYTES)
        self._vhosts: dict[VHostStatistics, None] = {}
        self._removed: list[VHostStatistics] = []
        self._ended_channels: tuple[int, ...] = ChannelValues()
        self._ended_traffic: tuple[int, ...] = TrafficValues()

    def new_vhost(self) -> VHostStatistics:
        """Return the statistics of a new virtual host."""
        statistics = VHostStatistics()
        self._vhosts[statistics] = None
        return statistics

    def vhost_ended(self, statistics: VHostStatistics) -> None:
        """Note a removed virtual host. Of those removed before, the ones without open channels are added up."""
        for ended in [removed for removed in self._removed if not removed.in_use]:
            self._removed.remove(ended)
            del self._vhosts[ended]
            self._ended_channels = added((self._ended_channels, ended.channels()))
            self._ended_traffic = added((self._ended_traffic, ended.traffic()))
        self._removed.append(statistics)

    def channels(self) -> ChannelValues:
        """Return the sum of all channels' counters."""
        return ChannelValues(*added((self._ended_channels, *(vhost.channels() for vhost in self._vhosts))))

    def traffic(self) -> TrafficValues:
        """Return the sum of all connections' traffic."""
        return TrafficValues(*added((self._ended_traffic, *(vhost.traffic() for vhost in self._vhosts))))

    def check(self) -> None:
        """Raise AssertionError unless the totals of channels and of queues are equal where both count."""
        channels = self.channels()
        for name in ("deliver", "deliver_no_ack", "get", "get_no_ack", "get_empty", "redeliver", "ack"):
            of_queues, of_channels = sum(map(attrgetter(name), self.queues.values())), getattr(channels, name)
            assert of_queues == of_channels, f"{name}: queues have counted {of_queues}, channels {of_channels}"
        assert channels.confirm <= channels.publish_confirmed <= channels.publish, (
            f"publishes are counted as {channels}"
        )
