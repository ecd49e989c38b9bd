"""The commands of `leveret`: where each is and its line in the overview.

Only the command that is used is imported. A command's example, and the names that others have for it, stand beside it.
"""

from __future__ import annotations

from typing import NamedTuple


class CommandRow(NamedTuple):
    """A command: `where` is its module below `broker` and the name there, `summary` its line in the overview."""

    where: str
    summary: str


SECTIONS: dict[str, dict[str, CommandRow]] = {
    "Running a broker": {
        "serve": CommandRow("cli.serve_command:serve", "run the broker until SIGTERM or SIGINT"),
        "config": CommandRow("cli.config_command:config", "print every setting, check a file of settings"),
        "status": CommandRow("cli.node_commands:status", "version, addresses, alarms, memory, disk, totals"),
        "ping": CommandRow("cli.node_commands:ping", "exit code 0 when the broker answers"),
        "wait": CommandRow("cli.running_commands:wait", "wait until the broker answers"),
        "stop": CommandRow("cli.running_commands:stop", "stop the broker in order"),
        "health": CommandRow("cli.health_command:health", "check one thing, for probes"),
        "environment": CommandRow("cli.running_commands:environment", "settings that the broker runs with"),
        "memory": CommandRow("cli.running_commands:memory", "memory by its use"),
        "report": CommandRow("cli.running_commands:report", "print a report for the analysis of a fault"),
        "testing": CommandRow("cli.testing.orders_command:testing", "requests of tests: reset, time, faults, ..."),
        "test": CommandRow("cli.testing.with_broker_command:test", "run a command with a fresh broker"),
        "test-brokers": CommandRow(
            "cli.testing.brokers_command:test_brokers", "brokers for tests, by lines of JSON: for libraries"
        ),
        "rehearse": CommandRow(
            "cli.testing.rehearse_command:rehearse", "name what RabbitMQ 4.3 refuses or treats differently"
        ),
        "set-memory-high-watermark": CommandRow(
            "cli.running_commands:set_memory_high_watermark", "memory above which publishers are blocked"
        ),
        "set-log-level": CommandRow(
            "cli.running_commands:set_log_level", "log from a level on: debug, info, warning, ..."
        ),
        "set-log-form": CommandRow("cli.running_commands:set_log_form", "log lines as text or as JSON"),
        "set-disk-free-limit": CommandRow(
            "cli.running_commands:set_disk_free_limit", "free disk below which publishers are blocked"
        ),
    },
    "Queues, messages, connections": {
        "list": CommandRow("cli.list_command:listing", "list queues, connections, users and so on"),
        "publish": CommandRow("cli.messages.publish_command:publish", "publish a message, or one per line"),
        "get": CommandRow("cli.messages.read_commands:get", "take messages off a queue"),
        "peek": CommandRow("cli.messages.peek_command:peek", "look at a queue's messages, change nothing"),
        "consume": CommandRow("cli.messages.read_commands:consume", "print a queue's messages as they arrive"),
        "tail": CommandRow("cli.messages.tail_command:tail", "print what is published; queues keep it"),
        "bench": CommandRow("cli.messages.bench_command:bench", "measure publish and consume rates"),
        "queue": CommandRow("cli.topology.topology_commands:queue", "declare, delete, purge, list"),
        "exchange": CommandRow("cli.topology.topology_commands:exchange", "declare, delete, list"),
        "binding": CommandRow("cli.topology.topology_commands:binding", "add, delete, list"),
        "purge-queue": CommandRow("cli.node_commands:purge_queue", "delete a queue's ready messages"),
        "delete-queue": CommandRow("cli.node_commands:delete_queue", "delete a queue with its messages"),
        "close-connection": CommandRow("cli.node_commands:close_connection", "close a connection"),
        "close-connections": CommandRow(
            "cli.running_commands:close_connections", "close all of a user or virtual host"
        ),
        "migrate": CommandRow("cli.messages.migrate_command:migrate", "move a whole broker, from a RabbitMQ or to one"),
        "trace": CommandRow("cli.trace_command:trace", "copy every message to amq.rabbitmq.trace"),
    },
    "Users and virtual hosts": {
        "user": CommandRow("cli.user_commands:user", "add, delete, list; passwords, tags, limits"),
        "vhost": CommandRow("cli.user_commands:vhost", "virtual hosts: add, delete, list, limits"),
        "permission": CommandRow("cli.user_commands:permission", "permissions of users in virtual hosts"),
        "topic-permission": CommandRow(
            "cli.user_commands:topic_permission", "permissions for routing keys of topic exchanges"
        ),
    },
    "Policies and parameters": {
        "policy": CommandRow("cli.policy_commands:policy", "policies for queues and exchanges by name"),
        "operator-policy": CommandRow("cli.policy_commands:operator_policy", "limits above policies and arguments"),
        "parameter": CommandRow("cli.parameter_commands:parameter", "parameters of a virtual host"),
        "global-parameter": CommandRow("cli.parameter_commands:global_parameter", "parameters of the broker"),
        "cluster-name": CommandRow("cli.parameter_commands:cluster_name", "set the cluster name"),
    },
    "Data": {
        "import": CommandRow("cli.node_commands:import_", "import definitions"),
        "export": CommandRow("cli.node_commands:export", "export definitions, or the event log"),
        "backup": CommandRow("cli.stores.backup_commands:backup", "copy the data directory of a running broker"),
        "restore": CommandRow("cli.stores.backup_commands:restore", "replace the data directory by a backup"),
        "ship": CommandRow("cli.stores.ship_command:ship", "ship the store to a second place, until the broker stops"),
        "follow": CommandRow("cli.stores.standby_commands:follow", "stand by for a broker that is shipped"),
        "promote": CommandRow("cli.stores.standby_commands:promote", "take the second place over, and fence its owner"),
        "recover": CommandRow("cli.stores.backup_commands:recover", "give up missing data, so that the broker starts"),
        "check": CommandRow("cli.stores.backup_commands:check", "verify a stopped broker's stores"),
        "inspect": CommandRow("cli.stores.inspect_command:inspect", "show a stopped broker's messages"),
        "archive": CommandRow("cli.jobs.archive_command:archive", "move a queue's messages into Parquet files"),
        "pipeline": CommandRow("cli.jobs.pipeline_group:pipeline", "jobs: audit, latency, throughput, dead letters"),
    },
    "RabbitMQ's command lines": {
        "rabbitmqctl": CommandRow("rabbitmq.ctl.ctl_command:rabbitmqctl", "for scripts"),
        "rabbitmq-diagnostics": CommandRow(
            "rabbitmq.ctl.ctl_command:rabbitmq_diagnostics", "health checks, for probes"
        ),
        "rabbitmq-plugins": CommandRow(
            "rabbitmq.ctl.ctl_command:rabbitmq_plugins", "list of plugins, which are built in"
        ),
        "rabbitmq-queues": CommandRow("rabbitmq.ctl.ctl_command:rabbitmq_queues", "checks of queues on many nodes"),
        "rabbitmq-streams": CommandRow("rabbitmq.ctl.ctl_command:rabbitmq_streams", "streams and super streams"),
        "rabbitmq-upgrade": CommandRow("rabbitmq.ctl.ctl_command:rabbitmq_upgrade", "checks before an upgrade"),
        "rabbitmqadmin": CommandRow("rabbitmq.admin_v2.rabbitmqadmin_program:rabbitmqadmin", "by HTTP, for any broker"),
    },
}

TOP = {name: row for rows in SECTIONS.values() for name, row in rows.items()}

LINKS = frozenset(name for name in TOP if name.startswith("rabbitmq"))
"""The names by which the program is one of RabbitMQ's."""
