"""The commands of `leveret`: where each is defined, and what it is for in a few words."""

from __future__ import annotations

from typing import NamedTuple


class CommandEntry(NamedTuple):
    """The module below `broker` that defines a command, its name there, and its line in the overview."""

    module: str
    attribute: str
    summary: str


SECTIONS = {
    "Running a broker": {
        "serve": CommandEntry("cli.serve_command", "serve", "run the broker until SIGTERM or SIGINT"),
        "config": CommandEntry("cli.config_command", "config", "print every setting, check a file of settings"),
        "status": CommandEntry("cli.node_commands", "status", "version, addresses, alarms, memory, disk, totals"),
        "ping": CommandEntry("cli.node_commands", "ping", "exit code 0 when the broker answers"),
        "wait": CommandEntry("cli.running_commands", "wait", "return when the broker answers"),
        "stop": CommandEntry("cli.running_commands", "stop", "end the broker in order"),
        "health": CommandEntry("cli.health_command", "health", "check one thing, for probes"),
        "environment": CommandEntry("cli.running_commands", "environment", "settings that the broker runs with"),
        "memory": CommandEntry("cli.running_commands", "memory", "what takes how much memory"),
        "report": CommandEntry("cli.running_commands", "report", "everything, for a report of a fault"),
        "testing": CommandEntry("cli.testing.orders_command", "testing", "orders of tests: reset, time, faults, ..."),
        "test": CommandEntry("cli.testing.with_broker_command", "test", "a fresh broker for as long as a command runs"),
        "set-memory-high-watermark": CommandEntry(
            "cli.running_commands", "set_memory_high_watermark", "memory above which publishers wait"
        ),
        "set-log-level": CommandEntry(
            "cli.running_commands", "set_log_level", "what is logged: debug, info, warning, ..."
        ),
        "set-log-form": CommandEntry("cli.running_commands", "set_log_form", "log lines as text or as JSON"),
        "set-disk-free-limit": CommandEntry(
            "cli.running_commands", "set_disk_free_limit", "free disk below which publishers wait"
        ),
    },
    "Queues, messages, connections": {
        "list": CommandEntry("cli.list_command", "listing", "list queues, connections, users and so on"),
        "publish": CommandEntry("cli.messages.publish_command", "publish", "publish a message, or one for each line"),
        "get": CommandEntry("cli.messages.read_commands", "get", "take messages off a queue"),
        "consume": CommandEntry("cli.messages.read_commands", "consume", "print a queue's messages as they come"),
        "tail": CommandEntry("cli.messages.tail_command", "tail", "watch what is published, taking nothing away"),
        "bench": CommandEntry("cli.messages.bench_command", "bench", "how fast messages go through the broker"),
        "purge-queue": CommandEntry("cli.node_commands", "purge_queue", "discard a queue's messages"),
        "delete-queue": CommandEntry("cli.node_commands", "delete_queue", "delete a queue with its messages"),
        "close-connection": CommandEntry("cli.node_commands", "close_connection", "close a connection"),
        "close-connections": CommandEntry(
            "cli.running_commands", "close_connections", "close all of a user or virtual host"
        ),
        "migrate": CommandEntry(
            "cli.messages.migrate_command", "migrate", "move a whole broker, from a RabbitMQ or to one"
        ),
        "trace": CommandEntry("cli.trace_command", "trace", "copy every message to amq.rabbitmq.trace"),
    },
    "Users and virtual hosts": {
        "user": CommandEntry("cli.user_commands", "user", "add, delete, list; passwords, tags, limits"),
        "vhost": CommandEntry("cli.user_commands", "vhost", "virtual hosts: add, delete, list, limits"),
        "permission": CommandEntry("cli.user_commands", "permission", "what users may configure, write and read"),
        "topic-permission": CommandEntry("cli.user_commands", "topic_permission", "routing keys that users may use"),
    },
    "Policies and parameters": {
        "policy": CommandEntry("cli.policy_commands", "policy", "arguments of queues and exchanges by name"),
        "operator-policy": CommandEntry("cli.policy_commands", "operator_policy", "limits that nothing exceeds"),
        "parameter": CommandEntry("cli.parameter_commands", "parameter", "parameters of a virtual host"),
        "global-parameter": CommandEntry("cli.parameter_commands", "global_parameter", "parameters of the broker"),
        "cluster-name": CommandEntry("cli.parameter_commands", "cluster_name", "what the broker is called"),
    },
    "Data": {
        "import": CommandEntry("cli.node_commands", "import_", "take definitions in"),
        "export": CommandEntry("cli.node_commands", "export", "write definitions, or the event log, to files"),
        "backup": CommandEntry("cli.stores.backup_commands", "backup", "copy the data directory of a running broker"),
        "restore": CommandEntry(
            "cli.stores.backup_commands", "restore", "bring a backup back, in place of what is there"
        ),
        "recover": CommandEntry(
            "cli.stores.backup_commands", "recover", "start without what is missing of a data directory"
        ),
        "check": CommandEntry("cli.stores.backup_commands", "check", "verify a stopped broker's stores"),
        "inspect": CommandEntry("cli.stores.inspect_command", "inspect", "show a stopped broker's messages"),
        "archive": CommandEntry("cli.jobs.archive_command", "archive", "move a queue's messages into Parquet files"),
        "pipeline": CommandEntry(
            "cli.jobs.pipeline_group", "pipeline", "jobs: audit, latency, throughput, dead letters"
        ),
    },
    "RabbitMQ's command lines": {
        "rabbitmqctl": CommandEntry("rabbitmq.ctl.ctl_command", "rabbitmqctl", "for scripts"),
        "rabbitmq-diagnostics": CommandEntry(
            "rabbitmq.ctl.ctl_command", "rabbitmq_diagnostics", "health checks, for probes"
        ),
        "rabbitmq-plugins": CommandEntry(
            "rabbitmq.ctl.ctl_command", "rabbitmq_plugins", "plugins; what they do is built in"
        ),
        "rabbitmq-queues": CommandEntry(
            "rabbitmq.ctl.ctl_command", "rabbitmq_queues", "checks of queues on many nodes"
        ),
        "rabbitmq-streams": CommandEntry("rabbitmq.ctl.ctl_command", "rabbitmq_streams", "streams and super streams"),
        "rabbitmq-upgrade": CommandEntry("rabbitmq.ctl.ctl_command", "rabbitmq_upgrade", "checks before an upgrade"),
        "rabbitmqadmin": CommandEntry(
            "rabbitmq.admin.rabbitmqadmin_command", "rabbitmqadmin", "by HTTP, of any broker"
        ),
    },
}

VERBS = {name: verb for verbs in SECTIONS.values() for name, verb in verbs.items()}

LINKS = frozenset(name for name in VERBS if name.startswith("rabbitmq"))
"""The names by which the program is one of RabbitMQ's."""
