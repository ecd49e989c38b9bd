"""State of the broker: overview, churn, memory, health checks."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from broker.cli.table_output import echo
from broker.rabbitmq.admin.admin_http import RequestRefused
from broker.rabbitmq.admin_v2.command_call import CommandCall, refusal_text
from broker.rabbitmq.admin_v2.run_settings import Failure
from broker.rabbitmq.admin_v2.shown_columns import number_text, plain_text

UNAVAILABLE = 69
HEADING = ["key", "value"]
NO_MEMORY = "memory breakdown is not available (yet) on target node"
OVERVIEW = """
Product name = product_name
Product version = product_version
RabbitMQ version = rabbitmq_version
Erlang version = erlang_version
Erlang details = erlang_full_version
Connections (total) = object_totals.connections
AMQP 0-9-1 channels (total) = object_totals.channels
Queues and streams (total) = object_totals.queues
Consumers (total) = object_totals.consumers
Messages (total) = queue_totals.messages
Messages ready for delivery (total) = queue_totals.messages_ready
Messages delivered but unacknowledged by consumers (total) = queue_totals.messages_unacknowledged
Publishing (ingress) rate (global) = message_stats.publish_details.rate
Publishing confirm rate (global) = message_stats.confirm_details.rate
Consumer delivery (egress) rate (global) = message_stats.deliver_get_details.rate
Consumer delivery in automatic acknowledgement mode rate (global) = message_stats.deliver_no_ack_details.rate
Consumer acknowledgement rate (global) = message_stats.ack_details.rate
Unroutable messages: returned-to-publisher rate (global) = message_stats.return_unroutable_details.rate
Unroutable messages: dropped rate (global) = message_stats.drop_unroutable_details.rate
Cluster tags = cluster_tags
Node tags = node_tags
"""
CHURN_TITLE = "Entity (connections, queues, etc) churn over the most recent sampling period"
CHURN = """
Client connections opened = churn_rates.connection_created
Client connections closed = churn_rates.connection_closed
Client channels opened = churn_rates.channel_created
Client channels closed = churn_rates.channel_closed
Queues and streams (re)declarations = churn_rates.queue_declared
Queues and streams created = churn_rates.queue_created
Queues and streams deleted = churn_rates.queue_deleted
"""
MEMORY = """
Atom table = atom
Allocated but unused = allocated_unused
Binary heap = binary
Classic queue processes = queue_procs
Code  = code
AMQP 0-9-1 channels = connection_channels
Client connections: reader processes = connection_readers
Client connections: writer processes = connection_writers
Client connections: others processes = connection_other
Management stats database = mgmt_db
Message store indices = msg_index
Metadata store = metadata_store
Metadata store ETS tables = metadata_store_ets
Metrics data = metrics
Mnesia = mnesia
Other (ETS tables) = other_ets
Other (used by the runtime) = other_system
Other processes = other_proc
Quorum queue replica processes = quorum_queue_procs
Quorum queue ETS tables = quorum_ets
Plugins and their data = plugins
Reserved by the kernel but unallocated = reserved_unallocated
Stream replica processes = stream_queue_procs
Stream replica reader processes = stream_queue_replica_reader_procs
Stream coordinator processes = stream_queue_coordinator_procs
"""
"""Words of each table: `=` the place in the answer."""


def _overview(call: CommandCall) -> None:
    call.table([HEADING, *_filled(OVERVIEW, call.get("overview"))], "Overview")


def _churn(call: CommandCall) -> None:
    call.table([HEADING, *_filled(CHURN, call.get("overview"))], CHURN_TITLE)


def _filled(lines: str, answer: Mapping[str, Any]) -> list[list[str]]:
    places = (line.split(" = ") for line in lines.strip().splitlines())
    return [[words, _text(_at(answer, place))] for words, place in places]


def _at(answer: Any, place: str) -> Any:
    for name in place.split("."):
        answer = answer.get(name) if isinstance(answer, dict) else None
    return answer


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return "\n".join(f'"{key}": {json.dumps(item)}' for key, item in sorted(value.items()))
    return "" if value == [] else plain_text(value)


def _with_memory(show: Callable[[CommandCall, Mapping[str, Any]], None]) -> Callable[[CommandCall], None]:
    """Return a command that shows the memory of a node by its uses."""

    def report(call: CommandCall) -> None:
        parts = call.get(call.path("nodes/{node}/memory")).get("memory")
        if isinstance(parts, dict):
            show(call, parts)
        else:
            call.table([HEADING, ["result", "not available"], ["reason", NO_MEMORY]], "Memory Breakdown")

    return report


def _memory_in_bytes(call: CommandCall, parts: Mapping[str, Any]) -> None:
    total = parts["total"]
    rows = [("Total (RSS)", total["rss"]), ("Total (allocated by the runtime)", total["allocated"])]
    rows += [(words, _size(parts, place)) for words, place in _memory_words()]
    call.table([HEADING, *([words, number_text(size)] for words, size in sorted(rows, key=_by_size))])


def _memory_in_percent(call: CommandCall, parts: Mapping[str, Any]) -> None:
    whole = max(parts["total"].values()) or 1
    shares = [(words, 100 * _size(parts, place) / whole) for words, place in _memory_words()]
    rows = [["total", "100%"], *([words, f"{share:.2f}%"] for words, share in sorted(shares, key=_by_size))]
    call.table([["key", "percentage"], *rows])


def _memory_words() -> list[list[str]]:
    return [line.split(" = ") for line in MEMORY.strip().splitlines()]


def _by_size(row: tuple[str, float]) -> float:
    return -row[1]


def _size(parts: Mapping[str, Any], place: str) -> int:
    return max(int(parts.get(place, 0)), 0)


def check_health(call: CommandCall, form: str) -> int:
    """Carry out a health check; the exit code."""
    path = call.path(f"health/checks/{form}")
    try:
        call.ask("GET", path)
    except Failure as error:
        raise Failure(str(error), UNAVAILABLE) from error
    except RequestRefused as error:
        if error.status != HTTPStatus.SERVICE_UNAVAILABLE:
            raise Failure(refusal_text(error), UNAVAILABLE) from error
        details = json.loads(error.body)
        rows = [["result", "health check failed"], ["path", path], ["status_code", f"{error.status} {error.words}"]]
        call.table([HEADING, *rows, ["reason", plain_text(details.get("reason"))], *_details(details)])
        return UNAVAILABLE
    call.say("health check passed")
    return 0


def _details(details: Mapping[str, Any]) -> list[list[str]]:
    """Rows for the alarms, queues, port or protocols that are wrong."""
    alarms = [[f"alarm in effect on node {each['node']}", str(each["resource"])] for each in details.get("alarms", ())]
    queues = [
        ["affected queue, stream or internal component", str(each.get("readable_name"))]
        for each in details.get("queues", ())
    ]
    missing = details.get("missing")
    if missing is None:
        return [*alarms, *queues]
    if "ports" in details:
        return [["inactive port", plain_text(missing)]]
    names = ", ".join(missing) if isinstance(missing, list) else plain_text(missing)
    return [["inactive protocols" if isinstance(missing, list) else "inactive protocol", names]]


REPORTS: dict[str, Callable[[CommandCall], None]] = {
    "show overview": _overview,
    "show churn": _churn,
    "show endpoint": lambda call: echo(f"Using endpoint: {call.settings.address}"),
    "nodes memory_breakdown_in_bytes": _with_memory(_memory_in_bytes),
    "nodes memory_breakdown_in_percent": _with_memory(_memory_in_percent),
}
"""By the names of their commands."""
