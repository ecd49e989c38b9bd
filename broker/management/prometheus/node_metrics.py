"""Metrics of the node: what it is, what its process takes, who has logged in, what has come and gone."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Any

from prometheus_client.metrics_core import Metric

from broker.entities.scheduling.alarms import DISK, MEMORY
from broker.entities.statistics.totals import Churn, Logins
from broker.entities.vhosts.parameters import CLUSTER_ID
from broker.management.call import Management
from broker.management.prometheus.metric_groups import COUNTER, GAUGE, UNTYPED, Group, Labels, Measure, family
from broker.management.rows.node_row import node_row

Row = Mapping[str, Any]
Login = tuple[str, Logins]
NOTHING = "n/a"


def node_groups(api: Management) -> list[Group[Any]]:
    """The groups of the node itself."""
    statistics = api.broker.statistics
    nothing = Labels[Any]((), lambda _: ())
    row = node_row(api)
    return [
        Group("connection_churn_metrics", lambda: [statistics.churn], nothing, CHURN),
        Group("node_coarse_metrics", lambda: [row], nothing, USED),
        Group("node_metrics", lambda: [row], nothing, LIMITS),
        Group("auth_attempt_metrics", lambda: list(statistics.logins.items()), BY_PROTOCOL, LOGINS, always_apart=True),
    ]


def alarm_families(api: Management) -> Iterator[Metric]:
    """Which alarms are raised. Open files have none: the broker stops accepting connections instead."""
    alarms = api.broker.alarms
    for name, raised in (
        ("file_descriptor_limit", False),
        ("free_disk_space_watermark", alarms.is_raised(DISK)),
        ("memory_used_watermark", alarms.is_raised(MEMORY)),
    ):
        yield family(f"rabbitmq_alarms_{name}", UNTYPED, f"1 while the alarm {name} is raised", [((), int(raised))])


def identity_families(api: Management) -> Iterator[Metric]:
    """What runs here, in which version; every panel of RabbitMQ's dashboards joins on it."""
    settings = api.settings
    build = {
        "rabbitmq_version": settings.version,
        "prometheus_plugin_version": settings.version,
        "prometheus_client_version": version("prometheus-client"),
        "erlang_version": NOTHING,
        "product_version": settings.product_version,
        "product_name": "Leveret",
    }
    identity = {
        "rabbitmq_node": settings.node,
        "rabbitmq_cluster": api.registry.cluster_name,
        "rabbitmq_cluster_permanent_id": api.broker.parameters.everywhere[CLUSTER_ID],
    }
    started = time.time() - api.status()["uptime_seconds"]
    yield family("process_start_time_seconds", GAUGE, "When the process was started", [((), started)])
    for name, help_, labels in (
        ("rabbitmq_build_info", "Versions", build),
        ("rabbitmq_identity_info", "Names of the node and the cluster", identity),
    ):
        yield family(name, UNTYPED, help_, [(list(labels.values()), 1)], list(labels))


def _churn(name: str, help_: str, counter: str) -> Measure[Churn]:
    return Measure(name, COUNTER, help_, lambda churn: getattr(churn, counter))


CHURN = (
    _churn("connections_opened_total", "Connections that were opened", "connection_created"),
    _churn("connections_closed_total", "Connections that have ended", "connection_closed"),
    _churn("channels_opened_total", "Channels that were opened", "channel_created"),
    _churn("channels_closed_total", "Channels that have ended", "channel_closed"),
    _churn("queues_declared_total", "Declarations of queues", "queue_declared"),
    _churn("queues_created_total", "Queues that were made", "queue_created"),
    _churn("queues_deleted_total", "Queues that were deleted", "queue_deleted"),
)


def _of_row(name: str, kind: str, help_: str, column: str, divisor: int = 1) -> Measure[Row]:
    """A metric from a column of the node's row, which may be absent."""
    return Measure(name, kind, help_, lambda row: row[column] / divisor if column in row else None)


USED = (
    _of_row("process_open_fds", GAUGE, "Open files", "fd_used"),
    _of_row("process_open_tcp_sockets", GAUGE, "Sockets of AMQP clients", "sockets_used"),
    _of_row("process_resident_memory_bytes", GAUGE, "Memory, without mapped pages of the store", "mem_used"),
    _of_row("disk_space_available_bytes", GAUGE, "Room on the disk", "disk_free"),
    _of_row("erlang_processes_used", GAUGE, "Threads", "proc_used"),
    _of_row("erlang_gc_runs_total", COUNTER, "Searches of Python for cycles", "gc_num"),
    _of_row("erlang_scheduler_context_switches_total", COUNTER, "Context switches", "context_switches"),
)
LIMITS = (
    _of_row("process_max_fds", GAUGE, "How many files may be open", "fd_total"),
    _of_row("process_max_tcp_sockets", GAUGE, "How many AMQP clients are accepted", "sockets_total"),
    _of_row("resident_memory_limit_bytes", GAUGE, "Memory from which on publishers wait", "mem_limit"),
    _of_row("disk_space_available_limit_bytes", GAUGE, "Room below which publishers wait", "disk_free_limit"),
    _of_row("erlang_processes_limit", GAUGE, "How many threads there may be", "proc_total"),
    _of_row("erlang_scheduler_run_queue", GAUGE, "Tasks that wait for the event loop", "run_queue"),
    _of_row("erlang_uptime_seconds", GAUGE, "Time since the start", "uptime", 1000),
)

BY_PROTOCOL = Labels[Login](("protocol",), lambda login: (login[0],))
LOGINS: tuple[Measure[Login], ...] = (
    Measure("auth_attempts_total", COUNTER, "Attempts to log in", lambda login: login[1].succeeded + login[1].failed),
    Measure("auth_attempts_succeeded_total", COUNTER, "Logins", lambda login: login[1].succeeded),
    Measure("auth_attempts_failed_total", COUNTER, "Logins that were refused", lambda login: login[1].failed),
)
