"""What is shown of the node, and of the memory that it takes."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from typing import Any

import trio

from broker.entities.exchanges.exchange_type_table import DELAYED_TYPE, ROUTERS
from broker.entities.scheduling.alarms import DISK, MEMORY
from broker.management.call import Management
from broker.management.rows import process_facts
from broker.management.rows.listener_rows import contexts
from broker.session.login.sasl import EXTERNAL

PLUGINS = (
    "rabbitmq_consistent_hash_exchange",
    "rabbitmq_delayed_message_exchange",
    "rabbitmq_management",
    "rabbitmq_prometheus",
    "rabbitmq_random_exchange",
    "rabbitmq_recent_history_exchange",
)
"""Those of RabbitMQ's plugins whose work is done here, all of it."""
EXCHANGE_TYPES = {
    "direct": "AMQP direct exchange, as per the AMQP specification",
    "fanout": "AMQP fanout exchange, as per the AMQP specification",
    "headers": "AMQP headers exchange, as per the AMQP specification",
    "topic": "AMQP topic exchange, as per the AMQP specification",
    "x-consistent-hash": "Consistent hashing: a queue by the hash of the routing key",
    DELAYED_TYPE: "Messages are routed once their delay is over",
    "x-local-random": "One queue of this node, by chance",
    "x-modulus-hash": "A queue by the hash of the routing key, modulo the number of queues",
    "x-random": "One queue, by chance",
    "x-recent-history": "The latest messages, for each queue that is bound",
}
MECHANISMS = {
    "PLAIN": "SASL PLAIN authentication mechanism",
    "AMQPLAIN": "QPid AMQPLAIN mechanism",
    EXTERNAL: "TLS peer verification: the name in the client's certificate",
}


def exchange_types() -> list[dict[str, Any]]:
    """The types of exchange that there are."""
    return [{"name": name, "description": EXCHANGE_TYPES[name], "enabled": True} for name in sorted(ROUTERS)]


def _mechanisms(api: Management) -> list[dict[str, Any]]:
    enabled = api.registry.settings.mechanisms
    return [{"name": name, "description": text, "enabled": name in enabled} for name, text in MECHANISMS.items()]


def node_row(api: Management) -> dict[str, Any]:
    """The node, with what it has done since its start."""
    status, alarms, statistics = api.status(), api.broker.alarms, api.broker.statistics
    return {
        "applications": applications(api),
        "auth_mechanisms": _mechanisms(api),
        "cluster_links": [],
        "config_files": [],
        "contexts": contexts(status),
        "db_dir": status["data_directory"],
        "disk_free": status["disk"]["free_bytes"],
        "disk_free_alarm": alarms.is_raised(DISK),
        "disk_free_limit": status["disk"]["limit_bytes"],
        "enabled_plugins": list(PLUGINS),
        "exchange_types": exchange_types(),
        "log_files": ["<stderr>"],
        "mem_alarm": alarms.is_raised(MEMORY),
        "mem_calculation_strategy": "rss",
        "mem_limit": status["memory"]["limit_bytes"],
        "msg_store_write_count": sum(totals.disk_writes for totals in statistics.queues.values()),
        "mem_used": status["memory"]["used_bytes"],
        "metrics_gc_queue_length": {},
        "name": api.settings.node,
        "net_ticktime": 0,
        "os_pid": str(status["pid"]),
        "partitions": [],
        "processors": os.cpu_count() or 1,
        "ra_open_file_metrics": {},
        "rates_mode": api.settings.rates_mode,
        "running": True,
        "sockets_total": status["sockets"]["limit"],
        "sockets_used": status["sockets"]["used"],
        "type": "disc",
        "uptime": int(status["uptime_seconds"] * 1000),
        **statistics.churn.values()._asdict(),
        **process_row(),
        **store_row(status["store_io"]),
    }


def store_row(sums: Mapping[str, Any]) -> dict[str, Any]:
    """What the message store has done to its file; average times are milliseconds."""
    return {
        "io_read_avg_time": _average(sums["read_seconds"], sums["reads"]),
        "io_read_bytes": sums["read_bytes"],
        "io_read_count": sums["reads"],
        "io_sync_avg_time": _average(sums["sync_seconds"], sums["syncs"]),
        "io_sync_count": sums["syncs"],
        "io_write_avg_time": _average(sums["write_seconds"], sums["writes"]),
        "io_write_bytes": sums["written_bytes"],
        "io_write_count": sums["writes"],
        "msg_store_read_count": sums["read_messages"],
    }


def _average(seconds: float, count: int) -> float:
    return 1000 * seconds / count if count else 0.0


def process_row() -> dict[str, Any]:
    """What the system and Python say of the process."""
    threads = process_facts.threads()
    facts = {
        "context_switches": process_facts.context_switches(),
        "fd_total": process_facts.open_files_limit(),
        "fd_used": process_facts.open_files(),
        "gc_num": process_facts.collections(),
        "proc_total": threads and threads.limit,
        "proc_used": threads and threads.used,
        "run_queue": trio.lowlevel.current_statistics().tasks_runnable,
    }
    return {name: value for name, value in facts.items() if value is not None}


def applications(api: Management) -> list[dict[str, str]]:
    """What runs, and in which versions; `rabbit` has the one whose behaviour is claimed."""
    rows = [
        ("leveret", "Leveret", api.settings.product_version),
        ("python", platform.python_implementation(), platform.python_version()),
        ("rabbit", "What clients may expect", api.settings.version),
        *((name, "Part of Leveret", api.settings.version) for name in PLUGINS),
    ]
    return [{"name": name, "description": text, "version": version} for name, text, version in rows]
