"""Suggestions for unknown commands and options."""

from __future__ import annotations

import difflib

import click

from broker.cli.usage.command_groups import meant
from broker.cli.usage.listing_kinds import LISTINGS
from broker.cli.usage.verb_table import VERBS
from broker.rabbitmq.ctl.verb_catalogue import VERBS as RABBITMQ_VERBS

COMMANDS = {
    "version": "--version",
    "help": "--help",
    "start": "serve",
    "run": "serve",
    "shutdown": "stop",
    "add_user": "user add",
    "delete_user": "user delete",
    "change_password": "user change-password",
    "clear_password": "user clear-password",
    "authenticate_user": "user authenticate",
    "set_user_tags": "user set-tags",
    "set_user_limits": "user set-limits",
    "clear_user_limits": "user clear-limits",
    "list_user_limits": "user limits",
    "list_user_permissions": "user permissions",
    "add_vhost": "vhost add",
    "delete_vhost": "vhost delete",
    "set_vhost_limits": "vhost set-limits",
    "clear_vhost_limits": "vhost clear-limits",
    "list_vhost_limits": "vhost limits",
    "set_permissions": "permission set",
    "clear_permissions": "permission clear",
    "set_topic_permissions": "topic-permission set",
    "clear_topic_permissions": "topic-permission clear",
    "set_policy": "policy set",
    "clear_policy": "policy clear",
    "set_operator_policy": "operator-policy set",
    "clear_operator_policy": "operator-policy clear",
    "set_parameter": "parameter set",
    "clear_parameter": "parameter clear",
    "set_global_parameter": "global-parameter set",
    "clear_global_parameter": "global-parameter clear",
    "set_cluster_name": "cluster-name",
    "import_definitions": "import definitions",
    "export_definitions": "export definitions",
    "cluster_status": "status",
    "node_health_check": "health running",
    "check_running": "health running",
    "check_local_alarms": "health alarms",
    "check_alarms": "health alarms",
    "check_port_listener": "health port",
    "check_protocol_listener": "health protocol",
    "check_port_connectivity": "health connectivity",
    "check_certificate_expiration": "health certificates",
    "alarms": "health alarms",
    "listeners": "list listeners",
    "memory_breakdown": "memory",
    "await_startup": "wait",
    "set_vm_memory_high_watermark": "set-memory-high-watermark",
    "close_all_connections": "close-connections",
    "trace_on": "trace on",
    "trace_off": "trace off",
}
"""Names of commands elsewhere, above all in RabbitMQ, and the command here."""

OPTIONS = {
    "--port": "--listen",
    "--host": "--listen",
    "--bind": "--listen",
    "--address": "--listen",
    "--format": "--json",
    "--formatter": "--json",
    "--output": "--json",
    "--data": "--data-dir",
    "--datadir": "--data-dir",
    "--node": "--data-dir",
    "-n": "--data-dir",
    "--vhost": "-p",
    "--conf": "--config",
    "-c": "--config",
}
"""Names of options elsewhere, and the option here."""
BEHIND = {"--listen": "`leveret serve --listen`", "--json": "`leveret list queues --json`"}
"""Commands that have an option which was given before the command."""


def meant_command(word: str) -> str:
    """Return the error for an unknown command, with a suggestion."""
    ours = _ours(word)
    hints = [] if ours is None else [f"did you mean `leveret {ours}`?"]
    if word in RABBITMQ_VERBS:
        hints.append(f"RabbitMQ's own is `leveret rabbitmqctl {word}`")
    return f"there is no command '{word}': {' '.join(hints) or '`leveret --help` lists all'}"


def _ours(word: str) -> str | None:
    if word in COMMANDS:
        return COMMANDS[word]
    kind = word.removeprefix("list_").removeprefix("list-")
    lists = {name: f"list {name}" for name in LISTINGS}
    listed = meant(kind, lists)
    if listed is None and word not in RABBITMQ_VERBS:
        listed = next(iter(difflib.get_close_matches(kind, [*VERBS, *lists], 1)), None)
    return None if listed is None else lists.get(listed, listed)


def meant_option(error: click.NoSuchOption) -> str:
    """Return the error for an unknown option, with a suggestion."""
    known = [] if error.ctx is None else [name for each in error.ctx.command.params for name in each.opts]
    wanted = OPTIONS.get(error.option_name, "")
    close = [wanted] if wanted in known else error.possibilities or []
    if wanted in BEHIND and error.ctx is not None and error.ctx.parent is None:
        close = [BEHIND[wanted]]
    hint = f"did you mean {' or '.join(close)}?" if close else "--help lists all"
    return f"there is no option {error.option_name}: {hint}"
