"""Metrics of the offsets that groups of consumers have committed in streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from broker.entities.node.broker import Broker
from broker.entities.queues.streams.stream_queue import Stream
from broker.management.prometheus.metric_groups import GAUGE, Labels, Measure, MetricGroup, Values
from broker.management.prometheus.queue_metrics import queues_of

PREFIX = "leveret_"
OFFSETS = (
    Measure("stream_group_committed_offset", GAUGE, "The next offset that a group of consumers reads"),
    Measure("stream_group_lag", GAUGE, "Offsets from there to the end of the stream"),
)


class StreamGroup(NamedTuple):
    """A group that has committed an offset in a stream."""

    stream: Stream
    group: str

    @property
    def name(self) -> str:
        """The name of the stream, by which a scrape may choose."""
        return self.stream.name


def committed_offsets_group(broker: Broker) -> MetricGroup[StreamGroup]:
    """The committed offsets of all groups; never summed up, because one group's lag is not another's."""

    def groups() -> Iterator[StreamGroup]:
        for queue in queues_of(broker):
            if isinstance(queue, Stream):
                yield from (StreamGroup(queue, group) for group in list(queue.committed))

    labels = Labels[StreamGroup](
        ("vhost", "queue", "group"), lambda each: (each.stream.vhost_name, each.stream.name, each.group)
    )
    return MetricGroup(
        "stream_committed_offsets", groups, labels, OFFSETS, _offsets, lambda each: each.stream.vhost_name
    )


def _offsets(each: StreamGroup) -> Values:
    committed = each.stream.committed.get(each.group)  # a scrape comes in parts, and it may be gone since
    return (None, None) if committed is None else (committed.offset, each.stream.lag(each.group))
