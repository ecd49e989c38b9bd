"""Metrics of virtual hosts and exchanges, which RabbitMQ has for the whole cluster and only in /metrics/detailed."""

from __future__ import annotations

from collections.abc import Iterator

from broker.entities.exchanges.exchange import Exchange
from broker.entities.node.broker import Broker
from broker.management.prometheus.metric_groups import GAUGE, Labels, Measure, MetricGroup

PREFIX = "rabbitmq_cluster_"
Placed = tuple[str, Exchange]
"""The name of a virtual host, and an exchange in it."""


def vhost_group(broker: Broker) -> MetricGroup[str]:
    """The metrics of virtual hosts: all of them run."""
    running = Measure("vhost_status", GAUGE, "1: the virtual host runs")
    labels = Labels[str](("vhost",), lambda name: (name,))
    return MetricGroup("vhost_status", lambda: list(broker.vhosts), labels, (running,), lambda _: (1,))


def exchange_groups(broker: Broker) -> list[MetricGroup[Placed]]:
    """The metrics of exchanges, without the default exchange and internal ones."""

    def exchanges() -> Iterator[Placed]:
        for name, vhost in list(broker.vhosts.items()):
            for exchange in list(vhost.exchanges.values()):
                if exchange.name and not exchange.internal:
                    yield name, exchange

    bindings = Measure("exchange_bindings", GAUGE, "Bindings of the exchange")
    name = Measure("exchange_name", GAUGE, "1: there is this exchange")
    labels = Labels[Placed](("vhost", "exchange", "type"), lambda placed: (placed[0], placed[1].name, placed[1].type))
    return [
        MetricGroup("exchange_bindings", exchanges, labels, (bindings,), lambda placed: (len(placed[1].bindings),)),
        MetricGroup("exchange_names", exchanges, labels, (name,), lambda _: (1,)),
    ]
