"""Metrics of the node: versions, resources of the process, logins, churn."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Any

from prometheus_client.metrics_core import Metric

from broker.entities.node.parameters import CLUSTER_ID
from broker.entities.scheduling.alarms import DISK, MEMORY
from broker.entities.statistics.totals import Churn, Logins
from broker.management.management_api import ManagementApi
from broker.management.prometheus.metric_groups import (
    COUNTER,
    GAUGE,
    UNTYPED,
    Labels,
    Measure,
    MetricGroup,
    Values,
    family,
)
from broker.management.rows.node_rows import node_row

Row = Mapping[str, Any]
Login = tuple[str, Logins]
NOTHING = "n/a"


def node_groups(api: ManagementApi) -> list[MetricGroup[Any]]:
    """The groups of the node."""
    statistics = api.broker.statistics
    nothing = Labels[Any]((), lambda _: ())
    row = node_row(api)
    store = api.status()["store_io"] | {"written_messages": row["msg_store_write_count"]}
    return [
        MetricGroup("connection_churn_metrics", lambda: [statistics.churn], nothing, CHURN, Churn.values),
        MetricGroup("node_coarse_metrics", lambda: [row], nothing, USED, _used),
        MetricGroup("node_persister_metrics", lambda: [store], nothing, STORE, _store),
        MetricGroup("node_metrics", lambda: [row], nothing, LIMITS, _limits),
        MetricGroup(
            "auth_attempt_metrics", lambda: [*statistics.logins.items()], BY_PROTOCOL, LOGINS, _logins, None, True
        ),
    ]


def alarm_families(api: ManagementApi) -> Iterator[Metric]:
    """The alarms, 1 while raised. Open files have no alarm: the broker stops accepting connections instead."""
    alarms = api.broker.alarms
    raised_by_name = {
        **({"file_descriptor_limit": False} if api.series < (4, 0) else {}),
        "free_disk_space_watermark": alarms.is_raised(DISK),
        "memory_used_watermark": alarms.is_raised(MEMORY),
    }
    for name, raised in raised_by_name.items():
        yield family(f"rabbitmq_alarms_{name}", UNTYPED, f"1 while the alarm {name} is raised", [((), int(raised))])


def start_family(api: ManagementApi) -> Metric:
    """The time of the start of the process."""
    started = time.time() - api.status()["uptime_seconds"]
    return family("process_start_time_seconds", GAUGE, "When the process was started, since the epoch", [((), started)])


def identity_families(api: ManagementApi, endpoint: str) -> Iterator[Metric]:
    """The names of the node and the cluster, and the versions; all panels of RabbitMQ's dashboards join on them.

    The dashboards of 4.x tell scrapes of one node apart by the `endpoint`: `aggregated`, `per-object`, `detailed`. As 4
    the product is not named: RabbitMQ names another product than itself.
    """
    settings = api.settings
    build = {
        "rabbitmq_version": settings.version,
        "prometheus_plugin_version": settings.version,
        "prometheus_client_version": version("prometheus-client"),
        "erlang_version": NOTHING,
    }
    if api.series < (4, 0):
        build |= {"product_version": settings.product_version, "product_name": "Leveret"}
    identity = {
        "rabbitmq_node": settings.node,
        "rabbitmq_cluster": api.registry.cluster_name,
        "rabbitmq_cluster_permanent_id": api.broker.parameters.everywhere[CLUSTER_ID],
        "rabbitmq_endpoint": endpoint,
    }
    for name, help_, labels in (
        ("rabbitmq_build_info", "Versions", build),
        ("rabbitmq_identity_info", "Names of the node and the cluster", identity),
    ):
        yield family(name, UNTYPED, help_, [(list(labels.values()), 1)], list(labels))


CHURN = (
    Measure("connections_opened_total", COUNTER, "Connections that were opened"),
    Measure("connections_closed_total", COUNTER, "Connections that have ended"),
    Measure("channels_opened_total", COUNTER, "Channels that were opened"),
    Measure("channels_closed_total", COUNTER, "Channels that have ended"),
    Measure("queues_declared_total", COUNTER, "Declarations of queues"),
    Measure("queues_created_total", COUNTER, "Queues that were made"),
    Measure("queues_deleted_total", COUNTER, "Queues that were deleted"),
)
"""The measures of ChurnValues, in its order."""

USED = (
    Measure("process_open_fds", GAUGE, "Open files"),
    Measure("process_open_tcp_sockets", GAUGE, "Sockets of AMQP clients"),
    Measure("process_resident_memory_bytes", GAUGE, "Memory, without mapped pages of the store"),
    Measure("disk_space_available_bytes", GAUGE, "Room on the disk"),
    Measure("erlang_processes_used", GAUGE, "Threads"),
    Measure("erlang_gc_runs_total", COUNTER, "Searches of Python for cycles"),
    Measure("erlang_scheduler_context_switches_total", COUNTER, "Context switches"),
)


def _used(row: Row) -> Values:
    names = ("fd_used", "sockets_used", "mem_used", "disk_free", "proc_used", "gc_num", "context_switches")
    return [row.get(name) for name in names]


LIMITS = (
    Measure("process_max_fds", GAUGE, "How many files may be open"),
    Measure("process_max_tcp_sockets", GAUGE, "How many AMQP clients are accepted"),
    Measure("resident_memory_limit_bytes", GAUGE, "Memory from which on publishers wait"),
    Measure("disk_space_available_limit_bytes", GAUGE, "Room below which publishers wait"),
    Measure("erlang_processes_limit", GAUGE, "How many threads there may be"),
    Measure("erlang_scheduler_run_queue", GAUGE, "Tasks that wait for the event loop"),
    Measure("erlang_uptime_seconds", GAUGE, "Time since the start"),
)


def _limits(row: Row) -> Values:
    names = ("fd_total", "sockets_total", "mem_limit", "disk_free_limit", "proc_total", "run_queue")
    return [*(row.get(name) for name in names), row["uptime"] / 1000]


STORE = (
    Measure("io_read_ops_total", COUNTER, "Reads of the message store"),
    Measure("io_read_bytes_total", COUNTER, "Bytes of messages read back"),
    Measure("io_write_ops_total", COUNTER, "Writes to the file of the message store"),
    Measure("io_write_bytes_total", COUNTER, "Bytes written to the file of the message store"),
    Measure("io_sync_ops_total", COUNTER, "Syncs of the message store"),
    Measure("io_read_time_seconds_total", COUNTER, "Time of reading"),
    Measure("io_write_time_seconds_total", COUNTER, "Time of preparing what is written"),
    Measure("io_sync_time_seconds_total", COUNTER, "Time of writing and syncing"),
    Measure("msg_store_read_total", COUNTER, "Messages read back"),
    Measure("msg_store_write_total", COUNTER, "Messages written"),
)


def _store(sums: Row) -> Values:
    operations = ("reads", "read_bytes", "writes", "written_bytes", "syncs")
    times, messages = ("read_seconds", "write_seconds", "sync_seconds"), ("read_messages", "written_messages")
    return [sums[name] for name in (*operations, *times, *messages)]


BY_PROTOCOL = Labels[Login](("protocol",), lambda login: (login[0],))
LOGINS = (
    Measure("auth_attempts_total", COUNTER, "Attempts to log in"),
    Measure("auth_attempts_succeeded_total", COUNTER, "Logins"),
    Measure("auth_attempts_failed_total", COUNTER, "Logins that were refused"),
)


def _logins(login: Login) -> Values:
    counted = login[1]
    return counted.succeeded + counted.failed, counted.succeeded, counted.failed
