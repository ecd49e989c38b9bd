"""Counters of all channels and queues together since the start, which never fall."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.metrics_core import Metric

from broker.entities.arguments.queue_types import CLASSIC, QUORUM, TYPES
from broker.entities.statistics.counters import QueueTypeTotals
from broker.entities.statistics.totals import AMQP, BrokerStatistics
from broker.management.prometheus.metric_groups import COUNTER, GAUGE, Parts, family
from broker.management.prometheus.session_metrics import channels
from broker.session.registry import Registry

PREFIX = "rabbitmq_global_"

PUBLISHES = {
    "messages_received_total": ("Messages published", "publish"),
    "messages_received_confirm_total": ("Messages published, to be confirmed", "publish_confirmed"),
    "messages_confirmed_total": ("Messages confirmed to publishers", "confirm"),
    "messages_routed_total": ("Copies of messages put into queues", "routed"),
    "messages_unroutable_dropped_total": ("Messages that reached no queue", "drop_unroutable"),
    "messages_unroutable_returned_total": ("Mandatory messages that reached no queue", "return_unroutable"),
}
"""The help of each metric, and the counter of channels that it shows."""

Total = Callable[[QueueTypeTotals], int]
DELIVERIES: dict[str, tuple[str, Total]] = {
    "messages_acknowledged_total": ("Messages acknowledged", lambda totals: totals.ack),
    "messages_delivered_total": (
        "Messages delivered to consumers, or fetched",
        lambda totals: totals.deliver + totals.deliver_no_ack + totals.get + totals.get_no_ack,
    ),
    "messages_delivered_consume_auto_ack_total": (
        "Messages delivered without acknowledgement",
        lambda totals: totals.deliver_no_ack,
    ),
    "messages_delivered_consume_manual_ack_total": (
        "Messages delivered, to be acknowledged",
        lambda totals: totals.deliver,
    ),
    "messages_delivered_get_auto_ack_total": (
        "Messages fetched by basic.get without acknowledgement",
        lambda totals: totals.get_no_ack,
    ),
    "messages_delivered_get_manual_ack_total": (
        "Messages fetched by basic.get, to be acknowledged",
        lambda totals: totals.get,
    ),
    "messages_get_empty_total": ("basic.get that found no message", lambda totals: totals.get_empty),
    "messages_redelivered_total": ("Messages delivered or fetched again", lambda totals: totals.redeliver),
}

DEAD_LETTERS = {
    "rejected": "Messages that died by basic.reject or basic.nack",
    "expired": "Messages that died because their time to live was over",
    "maxlen": "Messages that died because they were too many",
    "delivery_limit": "Messages that died because they were delivered too often",
}
NEVER = {(CLASSIC.name, "delivery_limit"), (CLASSIC.name, "at_least_once"), ("maxlen", "at_least_once")}
"""Pairs of queue type, reason and strategy that cannot occur."""


def global_families(registry: Registry) -> Parts:
    """The counters, and the current numbers of publishers and consumers."""
    statistics = registry.broker.statistics
    yield from _publishes(statistics)
    yield from _deliveries(statistics)
    yield from _dead_letters(statistics)
    publishers = consumers = 0
    for channel in channels(registry):
        publishers += channel.counters.publish > 0
        consumers += len(channel.consumers)
        yield None
    yield _of_protocol("publishers", GAUGE, "Channels that have published", publishers)
    yield _of_protocol("consumers", GAUGE, "Consumers", consumers)


def _of_protocol(name: str, kind: str, help_: str, value: int) -> Metric:
    return family(PREFIX + name, kind, help_, [((AMQP,), value)], ("protocol",))


def _publishes(statistics: BrokerStatistics) -> Iterator[Metric]:
    values = statistics.channels()
    for name, (help_, counter) in PUBLISHES.items():
        yield _of_protocol(name, COUNTER, help_, getattr(values, counter))


def _deliveries(statistics: BrokerStatistics) -> Iterator[Metric]:
    for name, (help_, value) in DELIVERIES.items():
        samples = [((AMQP, TYPES[type_].module), value(totals)) for type_, totals in statistics.queues.items()]
        yield family(PREFIX + name, COUNTER, help_, samples, ("protocol", "queue_type"))


def _dead_letters(statistics: BrokerStatistics) -> Iterator[Metric]:
    labels = ("queue_type", "dead_letter_strategy")
    of_types = {type_.name: statistics.queues[type_.name] for type_ in (CLASSIC, QUORUM)}
    for reason, help_ in DEAD_LETTERS.items():
        samples = [
            ((TYPES[name].module, strategy), count)
            for name, totals in of_types.items()
            for (strategy, died_of), count in totals.dead_lettered.items()
            if died_of == reason and NEVER.isdisjoint({(name, reason), (name, strategy), (reason, strategy)})
        ]
        yield family(f"{PREFIX}messages_dead_lettered_{reason}_total", COUNTER, help_, samples, labels)
    confirmed = [((QUORUM.module, "at_least_once"), of_types[QUORUM.name].dead_letters_confirmed)]
    name, help_ = f"{PREFIX}messages_dead_lettered_confirmed_total", "Dead letters that have arrived for certain"
    yield family(name, COUNTER, help_, confirmed, labels)
