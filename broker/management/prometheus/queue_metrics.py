"""Metrics of queues."""

from __future__ import annotations

from operator import attrgetter

from broker.entities.node.broker import Broker
from broker.entities.queues.depth import depth, head_timestamp
from broker.entities.queues.queue import Queue
from broker.management.prometheus.metric_groups import COUNTER, GAUGE, Labels, Measure, MetricGroup, Values

_names = attrgetter("vhost_name", "name")
OF_QUEUE = Labels[Queue](("vhost", "queue"), _names)
FOR_PUBLISHES = Labels[Queue](("queue_vhost", "queue"), _names)


def queue_groups(broker: Broker) -> list[MetricGroup[Queue]]:
    """The groups of all queues."""

    def queues() -> list[Queue]:
        return queues_of(broker)

    def consumers(queue: Queue) -> Values:
        return (len(queue.consumers),)

    def published(queue: Queue) -> Values:
        return (queue.counters.publish,)

    return [
        MetricGroup("queue_coarse_metrics", queues, OF_QUEUE, DEPTH, _depth, vhost_of),
        MetricGroup("queue_consumer_count", queues, OF_QUEUE, (CONSUMERS,), consumers, vhost_of),
        MetricGroup("queue_metrics", queues, OF_QUEUE, (CONSUMERS, *DETAILS), _details, vhost_of),
        MetricGroup("channel_queue_exchange_metrics", queues, FOR_PUBLISHES, (PUBLISHED,), published),
    ]


def queues_of(broker: Broker) -> list[Queue]:
    """All queues."""
    return [queue for vhost in broker.vhosts.values() for queue in vhost.queues.values()]


def vhost_of(queue: Queue) -> str:
    """The virtual host by which queues are chosen."""
    return queue.vhost_name


DEPTH = (
    Measure("queue_messages_ready", GAUGE, "Messages that wait for consumers"),
    Measure("queue_messages_unacked", GAUGE, "Messages out with consumers"),
    Measure("queue_messages", GAUGE, "Messages ready and out with consumers"),
)


def _depth(queue: Queue) -> Values:
    return queue.ready, queue.unacked, queue.messages


CONSUMERS = Measure("queue_consumers", GAUGE, "Consumers")
PUBLISHED = Measure("queue_messages_published_total", COUNTER, "Messages of clients that reached the queue")
DETAILS = (
    Measure("queue_consumer_capacity", GAUGE, "Part of the time in which consumers took what there was", summed=False),
    Measure("queue_consumer_utilisation", GAUGE, "The same", summed=False),
    Measure("queue_messages_ram", GAUGE, "Messages of which anything is in memory"),
    Measure("queue_messages_ram_bytes", GAUGE, "Bytes of their bodies"),
    Measure("queue_messages_ready_ram", GAUGE, "Ready messages of which anything is in memory"),
    Measure("queue_messages_unacked_ram", GAUGE, "Messages out with consumers: all are known in memory"),
    Measure("queue_messages_persistent", GAUGE, "Messages that survive a restart"),
    Measure("queue_messages_persistent_bytes", GAUGE, "Bytes of their bodies"),
    Measure("queue_messages_bytes", GAUGE, "Bytes of the bodies of all messages"),
    Measure("queue_messages_ready_bytes", GAUGE, "Bytes of the bodies of ready messages"),
    Measure("queue_messages_unacked_bytes", GAUGE, "Bytes of the bodies of messages out with consumers"),
    Measure("queue_messages_paged_out", GAUGE, "Ready messages that are on disk only"),
    Measure("queue_messages_paged_out_bytes", GAUGE, "Bytes of their bodies"),
    Measure("queue_head_message_timestamp", GAUGE, "The timestamp of the first ready message", summed=False),
    Measure("queue_disk_reads_total", COUNTER, "Messages read back from the store"),
    Measure("queue_disk_writes_total", COUNTER, "Messages written to the store"),
)


def _details(queue: Queue) -> Values:
    in_it = depth(queue)
    return (
        len(queue.consumers),
        queue.consumers.capacity,
        queue.consumers.capacity,
        in_it.messages_ram,
        in_it.message_bytes_ram,
        in_it.messages_ready_ram,
        in_it.messages_unacknowledged_ram,
        in_it.messages_persistent,
        in_it.message_bytes_persistent,
        in_it.message_bytes,
        in_it.message_bytes_ready,
        in_it.message_bytes_unacknowledged,
        in_it.messages_paged_out,
        in_it.message_bytes_paged_out,
        head_timestamp(queue),
        queue.counters.disk_reads,
        queue.counters.disk_writes,
    )
