"""Metrics that RabbitMQ 4 has and 3.13 has not, and those that are gone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

from prometheus_client.metrics_core import HistogramMetricFamily, Metric

from broker.admin.node.memory_parts import parts_of_4
from broker.entities.arguments.queue_types import STREAM, TYPES
from broker.entities.exchanges.exchange import Exchange
from broker.entities.node.broker import Broker
from broker.entities.queues.queue import Queue
from broker.entities.queues.streams.stream_queue import Stream
from broker.entities.statistics.totals import AMQP
from broker.management.prometheus.leveret_metrics import cumulative
from broker.management.prometheus.metric_groups import COUNTER, GAUGE, Labels, Measure, MetricGroup, Parts, family
from broker.management.prometheus.queue_metrics import OF_QUEUE, queues_of, vhost_of

GONE = frozenset(
    {
        *("process_max_tcp_sockets", "process_open_tcp_sockets"),
        *("queue_messages_paged_out", "queue_messages_paged_out_bytes"),
    }
)
"""Measures of 3.13 that 4 has no longer."""
QUEUE_FAMILIES = frozenset({"queue_coarse_metrics", "queue_consumer_count", "queue_metrics"})
"""Families with which /metrics/detailed tells about the queues."""
NOTHING = Labels[Any]((), lambda _: ())


class PlacedExchange(NamedTuple):
    """An exchange, and the name of its virtual host."""

    vhost: str
    exchange: Exchange


class Way(NamedTuple):
    """An exchange and a queue, and the copies that came from the one to the other; with rates_mode detailed alone."""

    vhost: str
    exchange: str
    queue: str
    copies: int


def as_4(groups: Iterable[MetricGroup[Any]]) -> Iterator[MetricGroup[Any]]:
    """Leave out the measures that are gone."""
    for group in groups:
        yield group.without(GONE)


def groups_of_4(broker: Broker) -> list[MetricGroup[Any]]:
    """The groups that are new."""

    def exchanges() -> Iterator[PlacedExchange]:
        for name, vhost in list(broker.vhosts.items()):
            for exchange in list(vhost.exchanges.values()):
                if exchange.counters.publish_in:
                    yield PlacedExchange(name, exchange)

    def streams() -> list[Queue]:
        return [queue for queue in queues_of(broker) if queue.type is STREAM]

    def ways() -> Iterator[Way]:
        for queue in queues_of(broker):
            for name, counters in (queue.counters.incoming or {}).items():
                yield Way(queue.vhost_name, name, queue.name, counters.publish)

    by_exchange = Labels[PlacedExchange](("vhost", "exchange"), lambda placed: (placed.vhost, placed.exchange.name))
    return [
        MetricGroup("node_persister_metrics", lambda: [None], NOTHING, NEVER, lambda _: (0,) * len(NEVER)),
        MetricGroup("queue_metrics", streams, OF_QUEUE, SEGMENTS, _segments, vhost_of),
        MetricGroup("queue_metrics", lambda: queues_of(broker), OF_QUEUE, MEMORY_OF_QUEUE, _memory, vhost_of),
        MetricGroup("queue_delivery_metrics", lambda: queues_of(broker), OF_QUEUE, DELIVERED, _delivered, vhost_of),
        MetricGroup("exchange_metrics", exchanges, by_exchange, PUBLISHED, _published),
        MetricGroup("stream_consumer_metrics", list, NOTHING, (LAG,), lambda _: (None,), always_apart=True),
        MetricGroup("queue_exchange_metrics", ways, BY_WAY, ROUTED, lambda way: (way.copies,), lambda way: way.vhost),
    ]


NEVER = (
    Measure("io_seek_ops_total", COUNTER, "Seeks: none are needed"),
    Measure("io_seek_time_seconds_total", COUNTER, "Time of seeks: none are needed"),
    Measure("io_reopen_ops_total", COUNTER, "Files that were opened again: they stay open"),
    Measure("queue_index_read_ops_total", COUNTER, "Reads of an index: there is none"),
    Measure("queue_index_write_ops_total", COUNTER, "Writes to an index: there is none"),
    Measure("schema_db_ram_tx_total", COUNTER, "Transactions of Mnesia: there is none"),
    Measure("schema_db_disk_tx_total", COUNTER, "Transactions of Mnesia on disk: there is none"),
)
"""Counters that stay 0, in RabbitMQ 4 too."""
SEGMENTS = (Measure("stream_segments", GAUGE, "Segments of the stream"),)
"""RabbitMQ calls it a counter, whose name would end in `_total`."""
MEMORY_OF_QUEUE = (Measure("queue_process_memory_bytes", GAUGE, "Bytes of messages in memory"),)
DELIVERED = (
    Measure("queue_get_ack_total", COUNTER, "Messages fetched by basic.get, to be acknowledged"),
    Measure("queue_get_total", COUNTER, "Messages fetched by basic.get without acknowledgement"),
    Measure("queue_messages_delivered_ack_total", COUNTER, "Messages delivered, to be acknowledged"),
    Measure("queue_messages_delivered_total", COUNTER, "Messages delivered without acknowledgement"),
    Measure("queue_messages_redelivered_total", COUNTER, "Messages delivered or fetched again"),
    Measure("queue_messages_acked_total", COUNTER, "Messages acknowledged by basic.ack"),
    Measure("queue_get_empty_total", COUNTER, "basic.get that found no message"),
)
CONFIRMED, RETURNED, DROPPED, COPIES = SUMMED = (
    Measure("exchange_messages_confirmed_total", COUNTER, "Messages confirmed to publishers", summed=False),
    Measure(
        "exchange_messages_unroutable_returned_total", COUNTER, "Mandatory messages that no queue got", summed=False
    ),
    Measure("exchange_messages_unroutable_dropped_total", COUNTER, "Other messages that no queue got", summed=False),
    Measure("queue_exchange_messages_published_total", COUNTER, "Copies of messages put into queues", summed=False),
)
"""Counters whose totals are those of all channels: see `summed_families`."""
PUBLISHED = (
    Measure("exchange_messages_published_total", COUNTER, "Messages of clients published to the exchange"),
    *(CONFIRMED, RETURNED, DROPPED),
)
ROUTED = (COPIES,)
LAG = Measure("stream_consumer_max_offset_lag", GAUGE, "Of consumers by the stream protocol, which is not spoken")
BY_WAY = Labels[Way](("vhost", "exchange", "queue"), lambda way: way[:3])
_delivered = attrgetter(
    *(
        f"counters.{name}"
        for name in ("get", "get_no_ack", "deliver", "deliver_no_ack", "redeliver", "ack", "get_empty")
    )
)


def _published(placed: PlacedExchange) -> tuple[int, ...]:
    counted = placed.exchange.counters
    return counted.publish_in, counted.confirm, counted.return_unroutable, counted.drop_unroutable


def _memory(queue: Queue) -> tuple[int]:
    return (queue.ready_messages.in_memory.bytes + queue.out.bytes,)


def _segments(queue: Queue) -> tuple[int]:
    return (len(queue.log.segments) if isinstance(queue, Stream) else 0,)


def summed_families(broker: Broker) -> Iterator[Metric]:
    """The totals that never fall, also when an exchange is deleted."""
    total = broker.statistics.channels()
    values = total.confirm, total.return_unroutable, total.drop_unroutable, total.routed
    for measure, value in zip(SUMMED, values, strict=True):
        yield family(f"rabbitmq_{measure.name}", COUNTER, measure.help, [((), value)])


def size_family(broker: Broker) -> Metric:
    """The sizes of messages that clients have published."""
    help_ = "Size of messages received from publishers"
    sizes = HistogramMetricFamily("rabbitmq_message_size_bytes", help_, labels=("protocol",))
    counted = broker.statistics.message_sizes
    buckets = cumulative(counted, str)
    sizes.add_metric(("amqp10",), [(bound, 0) for bound, _ in buckets], 0)
    sizes.add_metric((AMQP,), buckets, int(counted.total))
    return sizes


def peers_family() -> Metric:
    """The nodes that cannot be reached: there are no others."""
    help_ = "Nodes of the cluster that cannot be reached"
    return family("rabbitmq_unreachable_cluster_peers_count", GAUGE, help_, [((), 0)])


def queue_infos(broker: Broker) -> MetricGroup[Queue]:
    """The type of each queue; this node leads all of them."""
    names = ("vhost", "queue", "queue_type", "membership")
    labels = Labels[Queue](names, lambda queue: (queue.vhost_name, queue.name, TYPES[queue.type.name].module, "leader"))
    info = Measure("queue_info", GAUGE, "1: there is this queue")
    return MetricGroup("queue_info", lambda: queues_of(broker), labels, (info,), lambda _: (1,), vhost_of)


MEMORY = {
    "code": "code_module",
    "connection_readers": "client_connection_reader",
    "connection_writers": "client_connection_writer",
    "connection_channels": "client_connection_channel",
    "connection_other": "client_connection_other",
    "queue_procs": "classic_queue_erlang_process",
    "quorum_queue_procs": "quorum_queue_erlang_process",
    "quorum_queue_dlx_procs": "quorum_queue_dlx_erlang_process",
    "stream_queue_procs": "stream_erlang_process",
    "stream_queue_replica_reader_procs": "stream_replica_reader_erlang_process",
    "stream_queue_coordinator_procs": "stream_coordinator_erlang_process",
    "plugins": "plugin",
    "metadata_store": "modern_metadata_store",
    "other_proc": "other_erlang_process",
    "metrics": "metrics",
    "mgmt_db": "management_stats_db",
    "mnesia": "classic_metadata_store",
    "quorum_ets": "quorum_queue_ets_table",
    "metadata_store_ets": "modern_metadata_store_ets_table",
    "other_ets": "other_ets_table",
    "binary": "binary_heap",
    "msg_index": "message_index",
    "atom": "atom_table",
    "other_system": "other_system",
    "allocated_unused": "runtime_allocated_unused",
    "reserved_unallocated": "runtime_reserved_unallocated",
}
"""The metrics of /metrics/memory-breakdown, `rabbitmq_memory_*_bytes`, by the API's names of the parts."""


def memory_families(parts: Mapping[str, Any]) -> Parts:
    """The parts of the resident memory; 0 for those that there are not."""
    every = parts_of_4(parts)
    for part, name in MEMORY.items():
        yield family(f"rabbitmq_memory_{name}_bytes", GAUGE, f"Memory of {part} in bytes", [((), every[part])])
