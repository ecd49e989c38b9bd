"""Metrics of queues."""

from __future__ import annotations

from itertools import repeat

from broker.entities.queues.queue import Queue
from broker.entities.vhosts.broker import Broker
from broker.management.prometheus.metric_groups import COUNTER, GAUGE, Group, Labels, Measure

Placed = tuple[str, Queue]
"""A queue behind the name of its virtual host."""


def queue_groups(broker: Broker) -> list[Group[Placed]]:
    """The groups of all queues."""

    def queues() -> list[Placed]:
        return [placed for name, vhost in broker.vhosts.items() for placed in zip(repeat(name), vhost.queues.values())]

    return [
        Group(name, queues, OF_QUEUE, measures, _vhost)
        for name, measures in (
            ("queue_coarse_metrics", DEPTHS),
            ("queue_consumer_count", (CONSUMERS,)),
            ("queue_metrics", (CONSUMERS, *REST)),
        )
    ]


def publish_group(broker: Broker) -> Group[Placed]:
    """What was published to queues. RabbitMQ counts it for each channel and exchange, too; here it is the queue's."""
    published = _counted(
        "queue_messages_published_total", "Messages that clients have published to the queue", "publish"
    )
    labels = Labels[Placed](("queue_vhost", "queue"), lambda placed: (placed[0], placed[1].name))
    whole = queue_groups(broker)[0]
    return Group("channel_queue_exchange_metrics", whole.things, labels, (published,))


def _vhost(placed: Placed) -> str:
    return placed[0]


def _counted(name: str, help_: str, counter: str) -> Measure[Placed]:
    return Measure(name, COUNTER, help_, lambda placed: getattr(placed[1].counters, counter))


OF_QUEUE = Labels[Placed](("vhost", "queue"), lambda placed: (placed[0], placed[1].name))

DEPTHS: tuple[Measure[Placed], ...] = (
    Measure("queue_messages_ready", GAUGE, "Messages that wait for consumers", lambda placed: placed[1].ready),
    Measure("queue_messages_unacked", GAUGE, "Messages out with consumers", lambda placed: placed[1].unacked),
    Measure("queue_messages", GAUGE, "Messages ready and out with consumers", lambda placed: placed[1].messages),
)
CONSUMERS = Measure[Placed]("queue_consumers", GAUGE, "Consumers of the queue", lambda placed: len(placed[1].consumers))
REST: tuple[Measure[Placed], ...] = (
    Measure(
        "queue_messages_persistent",
        GAUGE,
        "Messages that a restart brings back",
        lambda placed: placed[1].store.state.messages,
    ),
    Measure(
        "queue_messages_persistent_bytes", GAUGE, "Bytes of their bodies", lambda placed: placed[1].store.state.bytes
    ),
    Measure(
        "queue_messages_ready_bytes",
        GAUGE,
        "Bytes of the bodies of ready messages",
        lambda placed: placed[1].ready_bytes,
    ),
    _counted("queue_disk_reads_total", "Messages read back from the store", "disk_reads"),
    _counted("queue_disk_writes_total", "Messages written to the store", "disk_writes"),
)
