"""The row of the node in the HTTP API."""

from __future__ import annotations

import os
import platform
import ssl
from typing import Any

import trio

from broker.admin.administration import Administration
from broker.admin.node import process_facts
from broker.entities.exchanges.exchange_type_table import DELAYED_TYPE, ROUTERS
from broker.entities.scheduling.alarms import DISK, MEMORY
from broker.management.management_api import ManagementApi
from broker.management.rows.listener_rows import contexts
from broker.management.statistics.windows import NO_SAMPLES, Ages
from broker.session.login.sasl import EXTERNAL

PLUGINS = (
    "rabbitmq_consistent_hash_exchange",
    "rabbitmq_delayed_message_exchange",
    "rabbitmq_management",
    "rabbitmq_prometheus",
    "rabbitmq_random_exchange",
    "rabbitmq_recent_history_exchange",
)
"""The plugins of RabbitMQ whose functions are all built in."""
EXCHANGE_TYPES = {
    "direct": "AMQP direct exchange, as per the AMQP specification",
    "fanout": "AMQP fanout exchange, as per the AMQP specification",
    "headers": "AMQP headers exchange, as per the AMQP specification",
    "topic": "AMQP topic exchange, as per the AMQP specification",
    "x-consistent-hash": "Consistent hashing: a queue by the hash of the routing key",
    DELAYED_TYPE: "Messages are routed once their delay is over",
    "x-local-random": "One queue of this node, chosen at random",
    "x-modulus-hash": "A queue by the hash of the routing key, modulo the number of queues",
    "x-random": "One queue, chosen at random",
    "x-recent-history": "The latest messages, for each queue that is bound",
}
MECHANISMS = {
    "PLAIN": "SASL PLAIN authentication mechanism",
    "AMQPLAIN": "QPid AMQPLAIN mechanism",
    EXTERNAL: "TLS peer verification: the name in the client's certificate",
}


def exchange_types() -> list[dict[str, Any]]:
    """The types of exchanges."""
    return [{"name": name, "description": EXCHANGE_TYPES[name], "enabled": True} for name in sorted(ROUTERS)]


def _mechanisms(api: ManagementApi) -> list[dict[str, Any]]:
    enabled = api.registry.settings.mechanisms
    return [{"name": name, "description": text, "enabled": name in enabled} for name, text in MECHANISMS.items()]


def node_row(api: ManagementApi, ages: Ages = NO_SAMPLES) -> dict[str, Any]:
    """The row of the node."""
    administration, alarms = api.administration, api.broker.alarms
    status = administration.status()
    return {
        "applications": applications(api),
        "auth_mechanisms": _mechanisms(api),
        "being_drained": False,
        "cluster_links": [],
        "config_files": [],
        "contexts": contexts(status),
        "db_dir": status["data_directory"],
        "disk_free_alarm": alarms.is_raised(DISK),
        "disk_free_limit": status["disk"]["limit_bytes"],
        "enabled_plugins": list(PLUGINS),
        "exchange_types": exchange_types(),
        "log_files": ["<stderr>"],
        "mem_alarm": alarms.is_raised(MEMORY),
        "mem_calculation_strategy": "rss",
        "mem_limit": status["memory"]["limit_bytes"],
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
        "type": "disc",
        "uptime": int(status["uptime_seconds"] * 1000),
        **_versions(api),
        **(_NEVER if api.series >= (4, 0) else {}),
        **process_limits(),
        **node_figures(administration),
        **api.broker.statistics.churn.values()._asdict(),
        **api.history.node_details(ages),
    }


_NOT_COUNTED = {
    **dict.fromkeys(("gc_bytes_reclaimed", "io_reopen_count", "io_seek_count"), 0),
    **dict.fromkeys(("mnesia_disk_tx_count", "mnesia_ram_tx_count"), 0),
    **dict.fromkeys(("queue_index_read_count", "queue_index_write_count"), 0),
    "io_seek_avg_time": 0.0,
}
_NEVER: dict[str, Any] = {
    **_NOT_COUNTED,
    **{f"{name}_details": {"rate": 0.0} for name in _NOT_COUNTED},
    "metrics_gc_queue_length": dict.fromkeys(
        (
            *("channel_closed", "channel_consumer_deleted", "connection_closed", "consumer_deleted"),
            *("exchange_deleted", "node_node_deleted", "queue_deleted", "vhost_deleted"),
        ),
        0,
    ),
    "ra_open_file_metrics": {"ra_log_segment_writer": 0, "ra_log_wal": 0},
}
"""Columns of RabbitMQ 4 that stay 0: there is no such work here, or it is not counted."""


def _versions(api: ManagementApi) -> dict[str, str]:
    """Return the versions in the node's row, since RabbitMQ 4."""
    if api.series < (4, 0):
        return {}
    return {
        "crypto_lib_version": ssl.OPENSSL_VERSION,
        "erlang_version": "n/a",
        "erlang_full_version": f"n/a ({platform.python_implementation()} {platform.python_version()})",
        "rabbitmq_version": api.settings.version,
    }


def node_figures(administration: Administration) -> dict[str, float]:
    """The numbers of the node's row of which samples are kept. Average times are milliseconds."""
    status, threads = administration.status(), process_facts.threads()
    io = status["store_io"]
    figures = {
        "context_switches": process_facts.context_switches(),
        "disk_free": status["disk"]["free_bytes"],
        "fd_used": process_facts.open_files(),
        "gc_num": process_facts.collections(),
        "io_read_avg_time": _average(io["read_seconds"], io["reads"]),
        "io_read_bytes": io["read_bytes"],
        "io_read_count": io["reads"],
        "io_sync_avg_time": _average(io["sync_seconds"], io["syncs"]),
        "io_sync_count": io["syncs"],
        "io_write_avg_time": _average(io["write_seconds"], io["writes"]),
        "io_write_bytes": io["written_bytes"],
        "io_write_count": io["writes"],
        "mem_used": status["memory"]["used_bytes"],
        "msg_store_read_count": io["read_messages"],
        "msg_store_write_count": sum(of.disk_writes for of in administration.broker.statistics.queues.values()),
        "proc_used": threads and threads.used,
        "sockets_used": status["sockets"]["used"],
    }
    return {name: value for name, value in figures.items() if value is not None}


def process_limits() -> dict[str, int]:
    """Limits of the process, and the tasks that wait for the event loop."""
    threads = process_facts.threads()
    limits = {
        "fd_total": process_facts.open_files_limit(),
        "proc_total": threads and threads.limit,
        "run_queue": trio.lowlevel.current_statistics().tasks_runnable,
    }
    return {name: value for name, value in limits.items() if value is not None}


def _average(seconds: float, count: int) -> float:
    return 1000 * seconds / count if count else 0.0


def applications(api: ManagementApi) -> list[dict[str, str]]:
    """The parts of the broker with their versions; `rabbit` has the version whose behaviour is claimed."""
    rows = [
        ("leveret", "Leveret", api.settings.product_version),
        ("python", platform.python_implementation(), platform.python_version()),
        ("rabbit", "What clients may expect", api.settings.version),
        *((name, "Part of Leveret", api.settings.version) for name in PLUGINS),
    ]
    return [{"name": name, "description": text, "version": version} for name, text, version in rows]
