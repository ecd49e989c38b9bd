"""The history of all counters, as the API shows it.

Its methods for routes:

    history.queue_stats(queue, ages)          -> message_stats of a queue: {"publish": 3, "publish_details": {...}, ...}
    history.exchange_stats(exchange, ages)       the same of an exchange, a channel, a virtual host
    history.channel_stats(channel, ages)
    history.vhost_stats(vhost, ages)
    history.overview_stats(vhosts, ages)      -> the sum of these virtual hosts; of the whole broker for None
    history.queue_lengths(queue, ages)        -> {"messages_details": {...}, "messages_ready_details": {...}, ...}
    history.overview_lengths(vhosts, ages)       the sum of virtual hosts, for queue_totals
    history.connection_traffic(connection, ages) -> {"recv_oct_details": {...}, "send_oct_details": {...}}
    history.vhost_traffic(vhost, ages)           the same and the bytes: {"recv_oct": 3, "recv_oct_details": ...}
    history.churn_rates(ages)                 -> {"connection_created": 3, "connection_created_details": {...}, ...}
    history.node_details(ages)                -> {"mem_used_details": {...}, ...}: of the node's `figures`
    history.queue_idle_since(queue)           -> milliseconds since the epoch, None while it is in use
    history.channel_idle_since(channel)
    queue.consumers.capacity                  -> consumer_capacity, which is consumer_utilisation: 0 to 1

`ages` are the samples that a request asks for, `read_ages(call.parameters)`; without them details have rates only.
Values are current; rates and samples are those of the last complete round. With rates_mode none there are no details. A
group of message_stats is shown as soon as one of its members is not 0.

Every five seconds, at multiples of five seconds since the epoch, a round takes a sample of everything, in short steps.
A counter that has not changed stores nothing. Samples of five seconds are kept for ten minutes and those of a minute
for an hour; of virtual hosts, the broker and the node also samples of ten minutes for eight hours and of half an hour
for a day. The samples of a busy queue or channel take 10 KiB. All samples together are limited to BYTES_MAX: beyond it
those that have not changed for longest are dropped. Each thing that was ever in use takes another KiB while it exists.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from broker.admin.short_steps import AT_ONCE, in_steps
from broker.entities.exchanges.exchange import Exchange
from broker.entities.queues.queue import Queue
from broker.entities.vhosts.vhost import VHost
from broker.management.statistics.message_stats import Details, columns_of, message_stats, with_details
from broker.management.statistics.sample_series import SLOT_MILLISECONDS, SLOT_SECONDS, Series
from broker.management.statistics.sampler import BYTES, DISK, LENGTHS, Figures, Remembered, Sampler
from broker.management.statistics.windows import NO_SAMPLES, Ages, SampleWindow
from broker.session.channel.channel import Channel
from broker.session.connection import Connection
from broker.session.registry import Registry


class StatisticsHistory:
    """Samples and rates of all counters: see the module. `figures` returns the numbers of the node's row."""

    def __init__(self, registry: Registry, figures: Figures = dict, *, rates_mode: str = "basic") -> None:
        self._broker = registry.broker
        self._rates = rates_mode != "none"
        self.sampler = Sampler(registry, figures)

    async def run(self) -> None:
        """Take samples for ever; with rates_mode none return at once."""
        if self._rates:
            await self.sampler.run()

    async def forget(self) -> None:
        """Drop all samples, at an operator's request. Counters stay."""
        async for _ in in_steps(self.sampler.forget_all(), at_once=AT_ONCE):
            pass

    # message_stats

    def queue_stats(self, queue: Queue, ages: Ages = NO_SAMPLES) -> dict[str, Any]:
        """message_stats of a queue."""
        values = queue.counters.values()._asdict()
        return message_stats(values, self.details((queue.counters,), ages.msg_rates))

    def exchange_stats(self, exchange: Exchange, ages: Ages = NO_SAMPLES) -> dict[str, Any]:
        """message_stats of an exchange."""
        counters = exchange.counters
        values = {"publish_in": counters.publish_in, "publish_out": counters.publish_out}
        return message_stats(values, self.details((counters,), ages.msg_rates))

    def channel_stats(self, channel: Channel, ages: Ages = NO_SAMPLES) -> dict[str, Any]:
        """message_stats of a channel."""
        values = channel.counters.values()._asdict()
        return message_stats(values, self.details((channel.counters,), ages.msg_rates))

    def vhost_stats(self, vhost: VHost, ages: Ages = NO_SAMPLES) -> dict[str, Any]:
        """message_stats of a virtual host."""
        return self.overview_stats((vhost,), ages)

    def overview_stats(self, vhosts: Sequence[VHost] | None, ages: Ages = NO_SAMPLES) -> dict[str, Any]:
        """message_stats summed over virtual hosts; for None of the broker, including what has been deleted."""
        if vhosts is None:
            statistics = self._broker.statistics
            types = statistics.queues.values()
            disk = {name: sum(getattr(of, name) for of in types) for name in DISK}
            values = {**statistics.channels()._asdict(), **disk}
            return message_stats(values, self.details((self.sampler.broker,), ages.msg_rates))
        channels = [vhost.statistics.channels()._asdict() for vhost in vhosts]
        values = {name: sum(each[name] for each in channels) for name in (channels[0] if channels else ())}
        return message_stats(values, self.details([vhost.statistics for vhost in vhosts], ages.msg_rates))

    # Messages in queues, bytes, what comes and goes

    def queue_lengths(self, queue: Queue, ages: Ages = NO_SAMPLES) -> dict[str, Any]:
        """The details of the messages in a queue."""
        return self._only_details(LENGTHS, (queue.counters,), ages.lengths)

    def overview_lengths(self, vhosts: Sequence[VHost] | None, ages: Ages = NO_SAMPLES) -> dict[str, Any]:
        """The details of the messages summed over virtual hosts; for None over all."""
        sources = (self.sampler.broker,) if vhosts is None else [vhost.statistics for vhost in vhosts]
        return self._only_details(LENGTHS, sources, ages.lengths)

    def connection_traffic(self, connection: Connection, ages: Ages = NO_SAMPLES) -> dict[str, Any]:
        """The details of a connection's bytes."""
        return self._only_details(BYTES, (connection.traffic,), ages.data_rates)

    def vhost_traffic(self, vhost: VHost, ages: Ages = NO_SAMPLES) -> dict[str, Any]:
        """The bytes of a virtual host's connections, with details."""
        traffic = vhost.statistics.traffic()
        values = {"recv_oct": traffic.recv_oct, "send_oct": traffic.send_oct}
        return with_details(values, self.details((vhost.statistics,), ages.data_rates))

    def churn_rates(self, ages: Ages = NO_SAMPLES) -> dict[str, Any]:
        """Churn with details, for the window of the node or, as RabbitMQ's page asks, that of messages."""
        churn = self._broker.statistics.churn.values()._asdict()
        return with_details(churn, self.details((self.sampler.broker,), ages.node_stats or ages.msg_rates))

    def node_details(self, ages: Ages = NO_SAMPLES) -> dict[str, Any]:
        """The details of the node's figures, and of churn."""
        series = self.sampler.node.history
        figures = self._only_details(series.kind.columns if series else (), (self.sampler.node,), ages.node_stats)
        churn = self._broker.statistics.churn.values()._fields
        return figures | self._only_details(churn, (self.sampler.broker,), ages.node_stats)

    # Last use

    def queue_idle_since(self, queue: Queue) -> int | None:
        """Time of the last use of a queue, to five seconds, in milliseconds since the epoch; None if it is in use."""
        return self._idle_since(queue.counters, queue.last_used)

    def channel_idle_since(self, channel: Channel) -> int | None:
        """Time of the last use of a channel, to five seconds, in milliseconds since the epoch; None if it is in use."""
        return self._idle_since(channel.counters, channel.opened_at)

    def _idle_since(self, counters: Remembered, used: int) -> int | None:
        series: Series | None = counters.history
        changed = 0 if series is None else series.changed
        if changed and changed >= self.sampler.slot:
            return None
        return max(used, changed * SLOT_MILLISECONDS)

    # Details

    def _only_details(
        self, names: Iterable[str], sources: Iterable[Remembered], window: SampleWindow | None
    ) -> dict[str, Any]:
        details = self.details(sources, window)
        return {f"{name}_details": detail for name in names if (detail := details(name)) is not None}

    def details(self, sources: Iterable[Remembered], window: SampleWindow | None) -> Details:
        """Return a function for the rate and samples of a column, summed over several things."""
        if not self._rates:
            return _nothing
        pasts = [series for source in sources if (series := source.history) is not None]
        rate = self._rate([series for series in pasts if series.changed >= self.sampler.slot])
        return rate if window is None else self._samples(pasts, rate, window)

    def _rate(self, changed: Sequence[Series]) -> Details:
        """Return a function for the rate of a column, summed over things that have changed in the last round."""
        if not changed:
            return _no_rate
        columns, seconds = changed[0].kind.columns, self.sampler.elapsed * SLOT_SECONDS

        def details(name: str) -> Mapping[str, Any]:
            places = [columns.index(column) for column in columns_of(name)]
            return {"rate": sum(series.change(place) for series in changed for place in places) / seconds}

        return details

    def _samples(self, pasts: Sequence[Series], rate: Details, window: SampleWindow) -> Details:
        """Return a function for the rate and samples of a column."""
        times = window.times(self.sampler.slot * SLOT_SECONDS)
        values = [series.at([time // SLOT_SECONDS for time in times], window.age) for series in pasts]

        def details(name: str) -> Mapping[str, Any]:
            found = [
                of_series(series.kind.columns.index(column))
                for series, of_series in zip(pasts, values, strict=True)
                for column in columns_of(name)
            ]
            totals = list(map(sum, zip(*found, strict=True))) if found else [0] * len(times)
            return {**(rate(name) or {}), **_averages(totals, window), "samples": _shown(totals, times)}

        return details


def _nothing(name: str) -> None:
    """The details of a column where no rates are kept."""


def _no_rate(name: str) -> Mapping[str, Any]:
    """The details of a column that has not changed."""
    return NO_RATE


NO_RATE = {"rate": 0.0}


def _averages(totals: Sequence[Any], window: SampleWindow) -> dict[str, Any]:
    if len(totals) < 2:
        return {}
    seconds = (len(totals) - 1) * window.incr
    return {"avg": sum(totals) / len(totals), "avg_rate": (totals[0] - totals[-1]) / seconds}


def _shown(totals: Iterable[Any], times: Iterable[int]) -> list[dict[str, Any]]:
    return [{"sample": total, "timestamp": time * 1000} for total, time in zip(totals, times, strict=True)]
