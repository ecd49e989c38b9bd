"""Metrics of virtual hosts and exchanges: what RabbitMQ has for the whole cluster, in /metrics/detailed alone."""

from __future__ import annotations

from collections.abc import Iterator

from broker.entities.exchanges.exchange import Exchange
from broker.entities.vhosts.broker import Broker
from broker.management.prometheus.metric_groups import GAUGE, Labels, Measure, MetricGroup

PREFIX = "rabbitmq_cluster_"
Placed = tuple[str, Exchange]
"""An exchange behind the name of its virtual host."""


def vhost_group(broker: Broker) -> MetricGroup[str]:
    """Which virtual hosts there are: all of them run."""
    running = Measure("vhost_status", GAUGE, "1: the virtual host runs")
    labels = Labels[str](("vhost",), lambda name: (name,))
    return MetricGroup("vhost_status", lambda: list(broker.vhosts), labels, (running,), lambda _: (1,))


def exchange_groups(broker: Broker) -> list[MetricGroup[Placed]]:
    """Exchanges, without the default one and those of the broker itself."""

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
