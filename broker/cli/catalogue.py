"""Every command of `leveret`, one row each: place, line in the overview, example, names elsewhere.

Commands below a group have a path of two words. The test of the command line reads all examples.
"""

from __future__ import annotations

from typing import NamedTuple


class CommandRow(NamedTuple):
    """A command by its path.

    `where` is the module below `broker` and the name there, `summary` the line in the overview: of those at the top.
    `example` is what follows the path in the example at the end of its help. `elsewhere` are names that others, above
    all RabbitMQ, have for it, with blanks between.
    """

    path: str
    where: str = ""
    summary: str = ""
    example: str = ""
    elsewhere: str = ""


def _top(path: str, where: str, summary: str, example: str = "", elsewhere: str = "") -> CommandRow:
    return CommandRow(path, where, summary, example, elsewhere)


def _below(path: str, example: str = "", elsewhere: str = "") -> CommandRow:
    return CommandRow(path, "", "", example, elsewhere)


SECTIONS: dict[str, tuple[CommandRow, ...]] = {
    "Running a broker": (
        _top(
            "serve",
            "cli.serve_command:serve",
            "run the broker until SIGTERM or SIGINT",
            "--data-dir ./leveret-data --listen 0.0.0.0:5672",
            "start run",
        ),
        _top("config", "cli.config_command:config", "print every setting, check a file of settings"),
        _below("config show", "> leveret.toml"),
        _below("config check", "leveret.toml"),
        _top(
            "status",
            "cli.node_commands:status",
            "version, addresses, alarms, memory, disk, totals",
            "--json",
            "cluster_status",
        ),
        _top("ping", "cli.node_commands:ping", "exit code 0 when the broker answers", "--data-dir /var/lib/leveret"),
        _top("wait", "cli.running_commands:wait", "wait until the broker answers", "--timeout 30", "await_startup"),
        _top("stop", "cli.running_commands:stop", "stop the broker in order", elsewhere="shutdown"),
        _top("health", "cli.health_command:health", "check one thing, for probes"),
        _below("health running", elsewhere="node_health_check check_running"),
        _below("health alarms", elsewhere="check_local_alarms check_alarms alarms"),
        _below("health connectivity", elsewhere="check_port_connectivity"),
        _below("health port", "5672", "check_port_listener"),
        _below("health protocol", "amqp", "check_protocol_listener"),
        _below("health certificates", "--within 2 --unit months", "check_certificate_expiration"),
        _top("environment", "cli.running_commands:environment", "settings that the broker runs with", "--json"),
        _top("memory", "cli.running_commands:memory", "memory by its use", elsewhere="memory_breakdown"),
        _top("report", "cli.running_commands:report", "print a report for the analysis of a fault", "> report.txt"),
        _top(
            "testing",
            "cli.testing.orders_command:testing",
            "requests of tests: reset, time, faults, ...",
            "clock/step seconds=3600",
        ),
        _top(
            "test",
            "cli.testing.with_broker_command:test",
            "run a command with a fresh broker",
            "-- npm test",
        ),
        _top(
            "set-memory-high-watermark",
            "cli.running_commands:set_memory_high_watermark",
            "memory above which publishers are blocked",
            "2GB",
            "set_vm_memory_high_watermark",
        ),
        _top(
            "set-log-level",
            "cli.running_commands:set_log_level",
            "log from a level on: debug, info, warning, ...",
            "debug",
        ),
        _top("set-log-form", "cli.running_commands:set_log_form", "log lines as text or as JSON", "json"),
        _top(
            "set-disk-free-limit",
            "cli.running_commands:set_disk_free_limit",
            "free disk below which publishers are blocked",
            "5GB",
        ),
    ),
    "Queues, messages, connections": (
        _top(
            "list",
            "cli.list_command:listing",
            "list queues, connections, users and so on",
            "queues name messages consumers",
        ),
        _top(
            "publish",
            "cli.messages.publish_command:publish",
            "publish a message, or one per line",
            "orders 'first message' --declare",
        ),
        _top("get", "cli.messages.read_commands:get", "take messages off a queue", "orders --count 10 --keep"),
        _top(
            "consume", "cli.messages.read_commands:consume", "print a queue's messages as they arrive", "orders --json"
        ),
        _top(
            "tail",
            "cli.messages.tail_command:tail",
            "print what is published; queues keep it",
            "amq.topic --key 'orders.#'",
        ),
        _top(
            "bench",
            "cli.messages.bench_command:bench",
            "measure publish and consume rates",
            "--seconds 5 --size 100",
        ),
        _top("purge-queue", "cli.node_commands:purge_queue", "delete a queue's ready messages", "orders"),
        _top("delete-queue", "cli.node_commands:delete_queue", "delete a queue with its messages", "--if-empty orders"),
        _top(
            "close-connection",
            "cli.node_commands:close_connection",
            "close a connection",
            "'127.0.0.1:40312 -> 127.0.0.1:5672' 'maintenance'",
        ),
        _top(
            "close-connections",
            "cli.running_commands:close_connections",
            "close all of a user or virtual host",
            "--user app --limit 10",
            "close_all_connections",
        ),
        _top(
            "migrate",
            "cli.messages.migrate_command:migrate",
            "move a whole broker, from a RabbitMQ or to one",
            "--from amqp://guest:guest@old.example.com --management http://old.example.com:15672",
        ),
        _top("trace", "cli.trace_command:trace", "copy every message to amq.rabbitmq.trace"),
        _below("trace on", "-p /", "trace_on"),
        _below("trace off", "-p /", "trace_off"),
    ),
    "Users and virtual hosts": (
        _top("user", "cli.user_commands:user", "add, delete, list; passwords, tags, limits"),
        _below("user add", "app --tags monitoring", "add_user"),
        _below("user delete", "app", "delete_user"),
        _below("user list", "--json"),
        _below("user change-password", "app", "change_password"),
        _below("user clear-password", "app", "clear_password"),
        _below("user set-tags", "app administrator", "set_user_tags"),
        _below("user authenticate", "app", "authenticate_user"),
        _below("user permissions", "app", "list_user_permissions"),
        _below("user set-limits", "app '{\"max-connections\": 5}'", "set_user_limits"),
        _below("user clear-limits", "app max-connections", "clear_user_limits"),
        _below("user limits", elsewhere="list_user_limits"),
        _top("vhost", "cli.user_commands:vhost", "virtual hosts: add, delete, list, limits"),
        _below("vhost add", "staging --default-queue-type quorum", "add_vhost"),
        _below("vhost set", "staging --description 'tests of the shop'"),
        _below("vhost delete", "staging", "delete_vhost"),
        _below("vhost list"),
        _below("vhost set-limits", "staging '{\"max-queues\": 100}'", "set_vhost_limits"),
        _below("vhost clear-limits", "staging", "clear_vhost_limits"),
        _below("vhost limits", elsewhere="list_vhost_limits"),
        _top("permission", "cli.user_commands:permission", "permissions of users in virtual hosts"),
        _below("permission set", "-p staging app '.*' '.*' '.*'", "set_permissions"),
        _below("permission clear", "-p staging app", "clear_permissions"),
        _below("permission list", "-p staging"),
        _top(
            "topic-permission", "cli.user_commands:topic_permission", "permissions for routing keys of topic exchanges"
        ),
        _below("topic-permission set", "app amq.topic '^orders' '.*'", "set_topic_permissions"),
        _below("topic-permission clear", "app amq.topic", "clear_topic_permissions"),
        _below("topic-permission list"),
    ),
    "Policies and parameters": (
        _top("policy", "cli.policy_commands:policy", "policies for queues and exchanges by name"),
        _below("policy set", "short '^tmp' '{\"message-ttl\": 60000}' --apply-to queues", "set_policy"),
        _below("policy clear", "short", "clear_policy"),
        _below("policy delete", "short"),
        _below("policy list"),
        _top("operator-policy", "cli.policy_commands:operator_policy", "limits above policies and arguments"),
        _below("operator-policy set", "ceiling '.*' '{\"max-length\": 1000000}'", "set_operator_policy"),
        _below("operator-policy clear", "ceiling", "clear_operator_policy"),
        _below("operator-policy delete", "ceiling"),
        _below("operator-policy list"),
        _top("parameter", "cli.parameter_commands:parameter", "parameters of a virtual host"),
        _below("parameter set", "vhost-limits limits '{\"max-queues\": 100}'", "set_parameter"),
        _below("parameter clear", "vhost-limits limits", "clear_parameter"),
        _below("parameter list"),
        _top("global-parameter", "cli.parameter_commands:global_parameter", "parameters of the broker"),
        _below("global-parameter set", "mine '{\"a\": 1}'", "set_global_parameter"),
        _below("global-parameter clear", "mine", "clear_global_parameter"),
        _below("global-parameter list"),
        _top(
            "cluster-name",
            "cli.parameter_commands:cluster_name",
            "set the cluster name",
            "shop-broker",
            "set_cluster_name",
        ),
    ),
    "Data": (
        _top("import", "cli.node_commands:import_", "import definitions"),
        _below("import definitions", "definitions.json", "import_definitions"),
        _top("export", "cli.node_commands:export", "export definitions, or the event log"),
        _below("export definitions", "definitions.json", "export_definitions"),
        _below("export events", "--to events-parquet"),
        _top(
            "backup",
            "cli.stores.backup_commands:backup",
            "copy the data directory of a running broker",
            "/var/backups/leveret-monday",
        ),
        _top(
            "restore",
            "cli.stores.backup_commands:restore",
            "replace the data directory by a backup",
            "/var/backups/leveret-monday --replace",
        ),
        _top(
            "recover",
            "cli.stores.backup_commands:recover",
            "give up missing data, so that the broker starts",
            "--accept-loss",
        ),
        _top(
            "check",
            "cli.stores.backup_commands:check",
            "verify a stopped broker's stores",
            "--data-dir /var/backups/leveret-monday",
        ),
        _top(
            "inspect",
            "cli.stores.inspect_command:inspect",
            "show a stopped broker's messages",
            "--queue orders --limit 20",
        ),
        _top(
            "archive",
            "cli.jobs.archive_command:archive",
            "move a queue's messages into Parquet files",
            "--queue orders --out orders-parquet",
        ),
        _top("pipeline", "cli.jobs.pipeline_group:pipeline", "jobs: audit, latency, throughput, dead letters"),
        _below("pipeline audit", "--out audit"),
        _below("pipeline latency", "--out latency"),
        _below("pipeline throughput", "--out throughput"),
        _below("pipeline dead-letters", "--queue dead --out dead-letters"),
        _below("pipeline replay", "--queue dead --where \"reason = 'rejected'\""),
    ),
    "RabbitMQ's command lines": (
        _top("rabbitmqctl", "rabbitmq.ctl.ctl_command:rabbitmqctl", "for scripts"),
        _top("rabbitmq-diagnostics", "rabbitmq.ctl.ctl_command:rabbitmq_diagnostics", "health checks, for probes"),
        _top("rabbitmq-plugins", "rabbitmq.ctl.ctl_command:rabbitmq_plugins", "list of plugins, which are built in"),
        _top("rabbitmq-queues", "rabbitmq.ctl.ctl_command:rabbitmq_queues", "checks of queues on many nodes"),
        _top("rabbitmq-streams", "rabbitmq.ctl.ctl_command:rabbitmq_streams", "streams and super streams"),
        _top("rabbitmq-upgrade", "rabbitmq.ctl.ctl_command:rabbitmq_upgrade", "checks before an upgrade"),
        _top("rabbitmqadmin", "rabbitmq.admin.rabbitmqadmin_command:rabbitmqadmin", "by HTTP, for any broker"),
    ),
}

ROWS = {row.path: row for rows in SECTIONS.values() for row in rows}
TOP = {path: row for path, row in ROWS.items() if row.where}
ELSEWHERE = {name: row.path for row in ROWS.values() for name in row.elsewhere.split()}

LINKS = frozenset(name for name in TOP if name.startswith("rabbitmq"))
"""The names by which the program is one of RabbitMQ's."""

EXAMPLES = {
    path: f"{path} {row.example}".rstrip()
    for path, row in ROWS.items()
    if path not in LINKS and not any(other.startswith(f"{path} ") for other in ROWS)
}
"""An example of each command that is no group."""
