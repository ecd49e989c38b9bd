"""The task that samples all counters every five seconds, in short steps."""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Iterator, Mapping
from operator import add, attrgetter
from typing import Any, Protocol

import trio

from broker.admin.short_steps import in_steps
from broker.entities.statistics.pair_counters import Pairs
from broker.entities.statistics.totals import ChurnValues
from broker.entities.vhosts.vhost import VHost
from broker.management.statistics.commit_samples import COMMITS, commit_row
from broker.management.statistics.sample_series import FINE, LONG, SLOT_MILLISECONDS, Row, Series, SeriesKind
from broker.session.registry import Registry

BYTES_MAX = 32 << 20
"""Limit of the memory of all samples, without the `SERIES_BYTES` of each series."""

PUBLISHES = ("publish", "confirm", "return_unroutable", "drop_unroutable")
DELIVERIES = ("deliver", "deliver_no_ack", "get", "get_no_ack", "get_empty", "redeliver", "ack")
PUBLISHED = ("publish_in", "publish_out")
DISK = ("disk_reads", "disk_writes")
LENGTHS = ("messages", "messages_ready", "messages_unacknowledged")
BYTES = ("recv_oct", "send_oct")
CHURN = ChurnValues._fields

QUEUE = SeriesKind(("publish", *DELIVERIES, *DISK, *LENGTHS), FINE, "I")
EXCHANGE = SeriesKind(PUBLISHED, FINE, "I")
CHANNEL = SeriesKind((*PUBLISHES, *DELIVERIES), FINE, "I")
CONNECTION = SeriesKind(BYTES, FINE, "q")
VHOST = SeriesKind((*PUBLISHES, *DELIVERIES, *BYTES, *LENGTHS), LONG, "q")
BROKER = SeriesKind((*PUBLISHES, *DELIVERIES, *DISK, *LENGTHS, *CHURN), LONG, "q")

_of_queue = attrgetter("publish", *DELIVERIES, *DISK)
_of_exchange = attrgetter(*PUBLISHED)
_of_channel = attrgetter(*PUBLISHES, *DELIVERIES)
_of_connection = attrgetter(*BYTES)

Figures = Callable[[], Mapping[str, float]]
"""Returns the numbers of the node's row, with the same names each time."""


class Remembered(Protocol):
    """Counters with their samples, which are dropped together with them."""

    history: Any


class SampledTotals:
    """Samples of totals for which no counters exist."""

    history: Series | None = None


class Sampler:
    """Takes samples at multiples of five seconds since the epoch, also of the node's `figures`, and of commits.

    `slot` is the slot of the last complete round, 0 before the first one; `elapsed` is its distance in slots from the
    round before. `bytes` is the memory of all samples at its end.
    """

    def __init__(
        self,
        registry: Registry,
        figures: Figures,
        *,
        bytes_max: int = BYTES_MAX,
    ) -> None:
        self._registry = registry
        self._broker = registry.broker
        self._figures = figures
        self._bytes_max = bytes_max
        self.broker = SampledTotals()
        self.node = SampledTotals()
        self.commits = SampledTotals()
        self.slot = 0
        self.elapsed = 1
        self.bytes = 0
        self._by_age: dict[int, list[Series]] = {}

    async def run(self) -> None:
        """Take samples for ever, the first one now."""
        now = self._broker.clock.now
        while True:
            slot = now() // SLOT_MILLISECONDS
            if slot < self.slot:  # a test has set the clock back: rows have to be in order
                async for _ in in_steps(self.forget_all()):
                    pass
                self.slot = 0
            if slot > self.slot:
                async for _ in in_steps(self.round(slot)):
                    pass
            await trio.sleep((SLOT_MILLISECONDS - now() % SLOT_MILLISECONDS) / 1000)

    def round(self, slot: int) -> Iterator[None]:
        """Sample everything, for a slot later than the last one. Yields after each thing.

        The first round takes the values that it finds as the start of each series, not as a change.
        """
        self.bytes, self._by_age = 0, {}
        lengths: Row = (0, 0, 0)
        for vhost in list(self._broker.vhosts.values()):
            lengths = _sum(lengths, (yield from self._sample_vhost(vhost, slot)))
        for connection in list(self._registry.connections):
            self._sample(connection.traffic, CONNECTION, slot, _of_connection(connection.traffic))
            for channel in list(connection.channels.values()):
                self._sample(channel.counters, CHANNEL, slot, _of_channel(channel.counters))
                if channel.pairs is not None:
                    yield from self._sample_pairs(channel.pairs.publishes, channel.vhost.exchanges, slot)
                    yield from self._sample_pairs(channel.pairs.deliveries, channel.vhost.queues, slot)
            yield
        self._sample(self.broker, BROKER, slot, self._of_broker(lengths))
        yield
        figures = self._figures()
        self._sample(self.node, SeriesKind(tuple(figures), LONG, "d"), slot, tuple(figures.values()))
        self._sample(self.commits, COMMITS, slot, commit_row(self._broker.statistics.measurements))
        yield
        yield from self._forget()
        self.slot, self.elapsed = slot, slot - self.slot if self.slot else 1

    def _sample_vhost(self, vhost: VHost, slot: int) -> Generator[None, None, Row]:
        lengths: Row = (0, 0, 0)
        for queue in list(vhost.queues.values()):
            of_queue = queue.messages, queue.ready, queue.unacked
            lengths = _sum(lengths, of_queue)
            self._sample(queue.counters, QUEUE, slot, _of_queue(queue.counters) + of_queue)
            queue.consumers.measure()
            if queue.counters.incoming is not None:
                yield from self._sample_pairs(queue.counters.incoming, vhost.exchanges, slot)
            yield
        for exchange in list(vhost.exchanges.values()):
            self._sample(exchange.counters, EXCHANGE, slot, _of_exchange(exchange.counters))
            yield
        statistics = vhost.statistics
        row = _of_channel(statistics.channels()) + _of_connection(statistics.traffic()) + lengths
        self._sample(statistics, VHOST, slot, row)
        return lengths

    def _sample_pairs(self, pairs: Pairs, ends: Container[str], slot: int) -> Iterator[None]:
        """Sample pairs, and remove those whose other end is deleted."""
        for name, counters in list(pairs.items()):
            if name in ends:
                self._sample(counters, CHANNEL, slot, _of_channel(counters))
            else:
                del pairs[name]
            yield

    def _of_broker(self, lengths: Row) -> Row:
        statistics = self._broker.statistics
        types = statistics.queues.values()
        disk = sum(of.disk_reads for of in types), sum(of.disk_writes for of in types)
        return _of_channel(statistics.channels()) + disk + lengths + statistics.churn.values()

    def _sample(self, of: Remembered, kind: SeriesKind, slot: int, row: Row) -> None:
        series: Series | None = of.history
        if series is None:
            if not any(row):
                return
            series = of.history = Series(kind)
            if not self.slot:
                series.begin(row)
        series.sample(slot, row)
        self.bytes += series.size
        self._by_age.setdefault(series.changed, []).append(series)

    def _forget(self) -> Iterator[None]:
        """Drop the samples of what has not changed for longest, until BYTES_MAX is kept."""
        by_age, self._by_age = self._by_age, {}
        for age in sorted(by_age):
            for series in by_age[age]:
                if self.bytes <= self._bytes_max:
                    return
                self.bytes -= series.size
                series.forget()
                yield

    def forget_all(self) -> Iterator[None]:
        """Drop all samples. Counters stay. Yields after each thing."""
        for remembered in self._everything():
            series: Series | None = remembered.history
            if series is not None:
                series.forget()
            yield

    def _everything(self) -> Iterator[Remembered]:
        yield from (self.broker, self.node, self.commits)
        for vhost in list(self._broker.vhosts.values()):
            yield vhost.statistics
            yield from (queue.counters for queue in list(vhost.queues.values()))
            yield from (exchange.counters for exchange in list(vhost.exchanges.values()))
        for connection in list(self._registry.connections):
            yield connection.traffic
            yield from (channel.counters for channel in list(connection.channels.values()))


def _sum(row: Row, other: Row) -> Row:
    return tuple(map(add, row, other))
