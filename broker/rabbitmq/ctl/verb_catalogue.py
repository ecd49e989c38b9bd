"""Every verb of RabbitMQ's programs: its line, which stands beside its action, and the action."""

from __future__ import annotations

from functools import cache

from broker.rabbitmq.ctl.verb_call import VerbAction
from broker.rabbitmq.ctl.verb_lines import SeriesVerbs, VerbLine, read_verbs
from broker.rabbitmq.ctl.verbs import (
    access_verbs,
    check_verbs,
    eval_verb,
    feature_verbs,
    list_verbs,
    parameter_verbs,
    plugin_verbs,
    process_verbs,
    queue_verbs,
    replica_verbs,
    report_verb,
    shovel_verbs,
    status_verbs,
    stream_verbs,
    vhost_verbs,
)

SECTIONS = (
    "Help",
    "Nodes",
    "Cluster",
    "Replication",
    "Users",
    "Access Control",
    "Monitoring, observability and health checks",
    "Parameters",
    "Shovels",
    "Policies",
    "Virtual hosts",
    "Configuration and Environment",
    "Definitions",
    "Feature flags",
    "Operations",
    "Queues",
    "Management plugin",
    "Stream plugin",
    "Other",
    "Plugin Management",
    "Upgrade",
    "Deprecated",
)
"""The sections of the help, in their order."""
_MODULES = (
    access_verbs,
    check_verbs,
    eval_verb,
    feature_verbs,
    list_verbs,
    parameter_verbs,
    plugin_verbs,
    process_verbs,
    queue_verbs,
    replica_verbs,
    report_verb,
    shovel_verbs,
    status_verbs,
    stream_verbs,
    vhost_verbs,
)
_HELP = """
[Help]
autocomplete cdpq 1-1 [prefix] [--timeout <timeout>]
  Lists the verbs that begin so
help cdpqsu 0-1 (<command> | [--list-commands])
  Explains a verb, or lists all
"""
"""Verbs about the verbs themselves, which the command line carries out."""
ACTIONS: dict[str, VerbAction] = {name: action for module in _MODULES for name, action in module.VERBS.items()}
VERB_LINES: tuple[VerbLine, ...] = tuple(
    sorted(
        read_verbs([_HELP, *(module.LINES for module in _MODULES)]),
        key=lambda line: (SECTIONS.index(line.group), line.name),
    )
)


@cache
def verbs_of(series: str) -> SeriesVerbs:
    """Return the verbs of a series."""
    return SeriesVerbs(VERB_LINES, series)
