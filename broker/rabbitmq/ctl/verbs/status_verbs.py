"""State of the broker in RabbitMQ's sections: status, cluster_status, memory, settings, logs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from broker.admin.commands.connection_admin import ListAuthAttempts, ResetAuthAttempts
from broker.admin.commands.feature_flags import ListFeatureFlags
from broker.admin.commands.node_admin import Environment, ListAlarms, ListListeners, Memory, Status
from broker.admin.json_terms import settings_text
from broker.rabbitmq.ctl.line_options import Option
from broker.rabbitmq.ctl.outcomes import UNAVAILABLE, ListedRows, Misuse, Outcome, ShownText, VerbRefusal
from broker.rabbitmq.ctl.verb_call import VerbAction, VerbCall, asking
from broker.rabbitmq.ctl.verbs.check_verbs import alarm_texts, listener_text
from broker.rabbitmq.ctl.verbs.plugin_verbs import enabled_plugins

UNITS = {"bytes": 1, "kb": 1000, "mb": 1000**2, "gb": 1000**3, "tb": 1000**4}
LOG_LINES = 50
STDERR = "<stderr>"


def heading(text: str) -> str:
    """A section's heading, bold on terminals and elsewhere, as RabbitMQ writes it."""
    return f"\x1b[1m{text}\x1b[0m"


def in_unit(size: float, unit: str) -> str:
    """A size with its unit, as Erlang rounds it."""
    return f"{int(size)} bytes" if unit == "bytes" else f"{round(size / UNITS[unit], 4)} {unit}"


def _unit(call: VerbCall) -> str:
    unit: str = call.options.get("unit", "gb")
    return unit.lower()


def _check_unit(call: VerbCall) -> None:
    if _unit(call) not in UNITS:
        given = call.options["unit"]
        raise Misuse(f"\"unit '{given}' is not supported. Please use one of: bytes, mb, gb\"")


def _breakdown(memory: Mapping[str, Any]) -> list[tuple[str, int, float]]:
    """The parts of the memory, largest first, each with its share in per cent."""
    total = memory["total"]["rss"] or 1
    sizes = [(name, size) for name, size in memory.items() if isinstance(size, int)]
    parts = [(name, size, round(100 * size / total, 2)) for name, size in sizes]
    return sorted(parts, key=lambda part: -part[1])


def _memory_breakdown(call: VerbCall) -> Outcome:
    parts, unit = _breakdown(call.ask(Memory())), _unit(call)
    lines = [f"{name}: {in_unit(size, unit)} ({share}%)" for name, size, share in parts]
    return ShownText([*lines, ""], {name: {"bytes": size, "percentage": share} for name, size, share in parts})


def _status(call: VerbCall) -> Outcome:
    status, memory, listeners = call.ask(Status()), call.ask(Memory()), call.ask(ListListeners())
    alarms, plugins = call.ask(ListAlarms()), enabled_plugins(call)
    return ShownText(
        _sections(_status_sections(call, status, memory, alarm_texts(call), listeners, plugins)),
        _status_json(call, status, memory, alarms, listeners, plugins),
    )


def _sections(sections: Mapping[str, Iterable[str]]) -> Iterator[str]:
    for number, (title, lines) in enumerate(sections.items()):
        if number:
            yield ""
        yield heading(title)
        yield ""
        yield from lines


def _status_sections(
    call: VerbCall,
    status: Mapping[str, Any],
    memory: Mapping[str, Any],
    alarms: Sequence[str],
    listeners: Sequence[Mapping[str, Any]],
    plugins: Sequence[str],
) -> dict[str, Iterable[str]]:
    unit, totals = _unit(call), status["totals"]
    files, sockets, disk = status["file_descriptors"], status["sockets"], status["disk"]
    return {
        "Runtime": [
            f"OS PID: {status['pid']}",
            "OS: Linux",
            f"Uptime (seconds): {int(status['uptime_seconds'])}",
            "Is under maintenance?: false",
            "Product name: Leveret",
            f"Product version: {status['version']}",
            f"RabbitMQ version: {status['rabbitmq_version']}",
            f"Node name: {call.node}",
        ],
        "Plugins": [
            f"Enabled plugin file: {call.place.plugins_file}",
            "Enabled plugins:",
            "",
            *(f" * {plugin}" for plugin in plugins),
        ],
        "Data directory": [f"Node data directory: {status['data_directory']}"],
        "Config files": ["(none)"],
        "Log file(s)": [f" * {file}" for file in status["log_files"]],
        "Alarms": alarms or ["(none)"],
        "Memory": [
            f"Total memory used: {in_unit(memory['total']['rss'], unit)}",
            "Calculation strategy: rss",
            f"Memory high watermark setting: {_watermark(status['memory'], unit)}",
            "",
            *(f"{name}: {in_unit(size, unit)} ({share} %)" for name, size, share in _breakdown(memory)),
        ],
        "File Descriptors": [
            f"Total: {files['used']}, limit: {files['limit']}",
            f"Sockets: {sockets['used']}, limit: {sockets['limit']}",
        ],
        "Free Disk Space": [
            f"Low free disk space watermark: {in_unit(disk['limit_bytes'], unit)}",
            f"Free disk space: {in_unit(disk['free_bytes'], unit)}",
        ],
        "Totals": [
            f"Connection count: {totals['connections']}",
            f"Queue count: {totals['queues']}",
            f"Virtual host count: {totals['vhosts']}",
        ],
        "Listeners": list(map(listener_text, listeners)),
    }


def _watermark(memory: Mapping[str, Any], unit: str) -> str:
    setting, computed = memory["high_watermark"], in_unit(memory["limit_bytes"], unit)
    if "relative" in setting:
        return f"{setting['relative']} of available memory, computed to: {computed}"
    return f"{computed}, computed to: {computed}"


def _status_json(
    call: VerbCall,
    status: Mapping[str, Any],
    memory: Mapping[str, Any],
    alarms: Sequence[Mapping[str, str]],
    listeners: Sequence[Mapping[str, Any]],
    plugins: Sequence[str],
) -> dict[str, Any]:
    files, sockets, totals = status["file_descriptors"], status["sockets"], status["totals"]
    return {
        "active_plugins": plugins,
        "alarms": [{**alarm, "type": "resource_limit"} for alarm in alarms],
        "config_files": [],
        "data_directory": status["data_directory"],
        "disk_free": status["disk"]["free_bytes"],
        "disk_free_limit": status["disk"]["limit_bytes"],
        "enabled_plugin_file": str(call.place.plugins_file),
        "file_descriptors": {
            "sockets_limit": sockets["limit"],
            "sockets_used": sockets["used"],
            "total_limit": files["limit"],
            "total_used": files["used"],
        },
        "is_under_maintenance": False,
        "listeners": listeners,
        "log_files": status["log_files"],
        "memory": memory,
        "os": "Linux",
        "pid": status["pid"],
        "product_name": "Leveret",
        "product_version": status["version"],
        "rabbitmq_version": status["rabbitmq_version"],
        "totals": {
            "virtual_host_count": totals["vhosts"],
            "connection_count": totals["connections"],
            "queue_count": totals["queues"],
        },
        "uptime": int(status["uptime_seconds"]),
        "vm_memory_calculation_strategy": "rss",
        "vm_memory_high_watermark_limit": status["memory"]["limit_bytes"],
        "vm_memory_high_watermark_setting": status["memory"]["high_watermark"],
    }


def _cluster_status(call: VerbCall) -> Outcome:
    status, listeners = call.ask(Status()), call.ask(ListListeners())
    flags, alarms, node = call.ask(ListFeatureFlags()), alarm_texts(call), call.node
    sections = {
        "Basics": [f"Cluster name: {status['cluster_name']}"],
        "Disk Nodes": [node],
        "Running Nodes": [node],
        "Versions": [f"{node}: RabbitMQ {status['rabbitmq_version']}"],
        "Maintenance status": [f"Node: {node}, status: not under maintenance"],
        "Alarms": alarms or ["(none)"],
        "Network Partitions": ["(none)"],
        "Listeners": [f"Node: {node}, i{listener_text(listener)[1:]}" for listener in listeners],
        "Feature flags": [f"Flag: {flag['name']}, state: {flag['state']}" for flag in flags],
    }
    version = {"rabbitmq_name": "RabbitMQ", "rabbitmq_version": status["rabbitmq_version"]}
    json = {
        "alarms": alarms,
        "cluster_name": status["cluster_name"],
        "disk_nodes": [node],
        "feature_flags": flags,
        "listeners": {node: listeners},
        "maintenance_status": {node: "not under maintenance"},
        "partitions": {},
        "ram_nodes": [],
        "running_nodes": [node],
        "versions": {node: version},
    }
    return ShownText(_sections(sections), json)


def _environment(call: VerbCall) -> Outcome:
    settings = call.ask(Environment())
    return ShownText([settings_text(settings)], {"leveret": settings})


def _log_location(call: VerbCall) -> Outcome:
    files = call.ask(Status())["log_files"]
    return ShownText(files, {"node": call.node, "result": "ok", "value": files})


def _log_tail(call: VerbCall) -> Outcome:
    files = [file for file in call.ask(Status())["log_files"] if file != STDERR]
    if not files:
        raise VerbRefusal(
            UNAVAILABLE, "The log goes to standard error, and not to a file: ask what runs the broker for it"
        )
    with Path(files[0]).open(encoding="utf-8", errors="replace") as log:
        lines = [line.rstrip("\n") for line in deque(log, call.options.get("number", LOG_LINES))]
    return ShownText(lines, {"message": "\n".join(lines)})


def _tail_banner(call: VerbCall) -> str:
    return f"Last {call.options.get('number', LOG_LINES)} log lines on node {call.node} ..."


ATTEMPT_COLUMNS = ("protocol", "auth_attempts", "auth_attempts_failed", "auth_attempts_succeeded")


def _auth_attempts(call: VerbCall) -> Outcome:
    """By address they are not counted: RabbitMQ does so where it is told to."""
    attempts = [] if call.options.get("by-source") else call.ask(ListAuthAttempts())
    if not attempts:
        text = f"Node {call.node} reported no authentication attempt stats"
        return ShownText([text], {"attempts": [], "node": call.node, "result": "ok"})
    if call.options.get("formatter") == "json":
        return ShownText((), {"attempts": attempts, "node": call.node, "result": "ok"})
    return ListedRows(ATTEMPT_COLUMNS, attempts)


def _attempts_banner(call: VerbCall) -> str:
    return f'Listing authentication\n attempts for node "{call.node}" ...'


_UNIT = (Option("unit", str),)
LINES = """
[Cluster]
cluster_status cd 0-0 [--timeout <timeout>]
  Shows the one node of the cluster
  Cluster status of node {node} ...

[Monitoring, observability and health checks]
list_node_auth_attempt_stats cd 0-0 [--by-source]
  Lists how often clients have tried to log in
memory_breakdown d 0-0 [--unit <unit>] [--timeout <timeout>]
  Shows what takes how much memory, in bytes, mb or gb
  Reporting memory breakdown on node {node}...
reset_node_auth_attempt_metrics d 0-0
  Resets the counts of login attempts
  Reset auth attempt metrics on node {node} ...
status cd 0-0 [--unit <unit>] [--timeout <timeout>]
  Shows how the broker does, sizes in bytes, mb or gb
  Status of node {node} ...

[Configuration and Environment]
environment cd 0-0
  Shows the settings that the broker runs with
  Application environment of node {node} ...
log_location d 0-0 [--all|-a] [--timeout <timeout>]
  Shows where the log goes
  Log file location(s) on node {node} ...
log_tail d 0-0 [--number|-N <number>] [--timeout <timeout>]
  Shows the last lines of the log file
  Last {number} log lines on node {node} ...
"""

VERBS: dict[str, VerbAction] = {
    "status": VerbAction(_status, options=_UNIT, check=_check_unit),
    "cluster_status": VerbAction(_cluster_status),
    "memory_breakdown": VerbAction(_memory_breakdown, options=_UNIT, check=_check_unit),
    "environment": VerbAction(_environment),
    "list_node_auth_attempt_stats": VerbAction(
        _auth_attempts, options=(Option("by-source", bool),), banner=_attempts_banner
    ),
    "reset_node_auth_attempt_metrics": asking(lambda call: ResetAuthAttempts()),
    "log_location": VerbAction(_log_location, options=(Option("all", bool, "a"),)),
    "log_tail": VerbAction(_log_tail, options=(Option("number", int, "N"),), banner=_tail_banner),
}
