"""Checks and switches that came with RabbitMQ 3.11 to 4.3: deprecated features, metadata store, disk, statistics."""

from __future__ import annotations

import re

from broker.admin.commands.feature_flags import ListDeprecatedFeatures
from broker.admin.commands.node_admin import MessageSizes, MonitorDisk, Ping, ResetStatistics
from broker.admin.commands.vhost_admin import ListVhosts
from broker.rabbitmq.ctl.line_options import Option
from broker.rabbitmq.ctl.outcomes import UNAVAILABLE, ListedRows, Outcome, ShownText, VerbRefusal, bad_argument
from broker.rabbitmq.ctl.verb_call import VerbAction, VerbCall, asking
from broker.rabbitmq.ctl.verbs.list_verbs import check_columns, names_in, wanted_columns

DEPRECATED_COLUMNS = names_in("name deprecation_phase state provided_by desc doc_url")


def _list_deprecated(call: VerbCall) -> Outcome:
    rows = call.ask(ListDeprecatedFeatures(used=bool(call.options.get("used"))))
    columns = wanted_columns(call, ["name", "deprecation_phase", "state"])
    return ListedRows(columns, rows, streamed=False)


def _deprecated_banner(call: VerbCall) -> str:
    return f"Listing deprecated features{' in use' if call.options.get('used') else ''} ..."


def _check_deprecated(call: VerbCall) -> Outcome:
    used = [row["name"] for row in call.ask(ListDeprecatedFeatures(used=True))]
    if not used:
        return ShownText(["Cluster reported no deprecated features in use"], {"result": "ok"}, hushed=True)
    message = "Cluster reported deprecated features in use"
    json = {"deprecated_features": used, "message": message, "result": "error"}
    raise VerbRefusal(UNAVAILABLE, "\n".join(used), headed=False, json=json, hushed=True)


def _passed(text: str) -> VerbAction:
    """Return a check that a broker which answers has passed; {} in its text is the node."""

    def run(call: VerbCall) -> Outcome:
        call.ask(Ping())
        return ShownText([text.format(call.node)], {"result": "ok"}, hushed=True)

    return VerbAction(run)


_INITIALIZED = "Metadata store on node {} has completed its initialization"


def _check_data(call: VerbCall) -> Outcome:
    if not call.ask(ListVhosts(columns=["name"])):
        text = f"Metadata store on node {call.node} reports to not yet have finished initialization"
        raise VerbRefusal(UNAVAILABLE, text, json={"message": text, "result": "error"}, hushed=True)
    return ShownText([_INITIALIZED.format(call.node)], {"result": "ok"}, hushed=True)


# Raft: of one member, which leads

RAFT_COLUMNS = (
    "Node Name",
    "Raft State",
    "Membership",
    "Last Log Index",
    "Last Written",
    "Last Applied",
    "Commit Index",
    "Snapshot Index",
    "Term",
    "Machine Version",
)


def raft_status(call: VerbCall, machine_version: int) -> Outcome:
    """Return the status of the one member. Nothing is replicated: the log has no entries."""
    values = (call.node, "leader", "voter", 0, 0, 0, 0, -1, 1, machine_version)
    return ListedRows(RAFT_COLUMNS, [dict(zip(RAFT_COLUMNS, values, strict=True))], streamed=False)


def _raft(machine_version: int) -> VerbAction:
    def run(call: VerbCall) -> Outcome:
        call.ask(Ping())
        return raft_status(call, machine_version)

    return VerbAction(run, form="pretty_table")


def _check_leaders(call: VerbCall) -> Outcome:
    call.ask(Ping())
    message = f"Node {call.node} reported all quorum queue as having responsive leader replicas"
    return ShownText([] if call.quiet else [message], {"message": message, "result": "ok"})


def _leaders_banner(call: VerbCall) -> str:
    where = "all vhosts" if call.options.get("across-all-vhosts") else f"vhost {call.vhost}"
    return f"Checking leader replicas of quorum queues matching '{call.arguments[0]}' in {where} ..."


# Sizes of messages

SIZES = (
    "below 100B",
    "between 100B and 1KB",
    "between 1KB and 10KB",
    "between 10KB and 100KB",
    "between 100KB and 1MB",
    "between 1MB and 10MB",
    "between 10MB and 50MB",
    "between 50MB and 100MB",
    "above 100MB",
)
"""RabbitMQ's words for the bounds by which sizes are counted."""


def _message_sizes(call: VerbCall) -> Outcome:
    counts = call.ask(MessageSizes())
    whole = sum(counts) or 1
    rows = [
        {"Message Size": size, "Count": count, "Percentage": f"{100 * count / whole:.2f}"}
        for size, count in zip(SIZES, counts, strict=True)
    ]
    return ListedRows(("Message Size", "Count", "Percentage"), rows, streamed=False)


# Interceptors: there are none


def _no_interceptors(call: VerbCall) -> Outcome:
    call.ask(Ping())
    return ListedRows(("name", "priority"), (), streamed=False)


def _pairs(call: VerbCall) -> list[tuple[str, str]]:
    return list(zip(call.arguments[::2], call.arguments[1::2], strict=True))


def _set_priorities(call: VerbCall) -> Outcome:
    call.ask(Ping())
    names = ",".join(f'<<"{name}">>' for name, _ in _pairs(call))
    why = "the following are not registered as channel interceptors"
    raise VerbRefusal(UNAVAILABLE, f"cannot set channel interceptor priorities: {why}: [{names}]")


def _check_pairs(call: VerbCall) -> None:
    if len(call.arguments) % 2:
        raise bad_argument("Interceptors and priorities must be provided as <interceptor> <priority> pairs")
    for priority in call.arguments[1::2]:
        if not re.fullmatch(r"-?\d+", priority):
            raise bad_argument(f'Priority "{priority}" is not a valid integer')


def _pairs_banner(call: VerbCall) -> str:
    return f"Setting channel interceptor priorities to [{', '.join(map('='.join, _pairs(call)))}] ..."


def _reset_banner(call: VerbCall) -> str:
    return f"Resetting statistics database {'in all nodes' if call.options.get('all') else f'on node {call.node}'}"


LINES = """
[Monitoring, observability and health checks]
activate_free_disk_space_monitoring cd 0-0 since=3.13 [--timeout <timeout>]
  Looks at the free disk space again
  [Re-]activating free disk space monitoring on node {node}...
check_for_quorum_queues_without_an_elected_leader d 1-1 since=4.2 [--vhost <vhost>] [--across-all-vhosts] <pattern>
  Never fails: the one node leads each queue
check_if_any_deprecated_features_are_used cd 0-0 since=3.13 [--timeout <timeout>]
  Fails if deprecated features are in use
  Checking if any deprecated features are used ...
check_if_metadata_store_is_initialized d 0-0 since=4.2 [--timeout <timeout>]
  Fails if the broker does not answer; its definitions are read before it does
  Checking if metadata store on node {node} has finished initializing ...
check_if_metadata_store_is_initialized_with_data d 0-0 since=4.2 [--timeout <timeout>]
  Fails if there is no virtual host
  Checking if metadata store on node {node} has finished initializing ...
check_if_new_quorum_queue_replicas_have_finished_initial_sync dq 0-0 since=3.13 [--timeout <timeout>]
  Never fails: there is one node
  Checking if node {node} runs promotable replicas of any queues ...
coordinator_status ds 0-0 since=3.13
  Shows the one node that keeps streams
  Status of stream coordinator ...
deactivate_free_disk_space_monitoring cd 0-0 since=3.13 [--timeout <timeout>]
  Looks at the free disk space no more, until the next start
  Deactivating free disk space monitoring on node {node}...
has_reached_target_cluster_size cdu 0-0 since=4.2 [--timeout <timeout>]
  Never fails: there is one node
  Checking if target cluster size has been reached on node {node} ...
list_channel_interceptors cd 0-0 since=4.3 [--no-table-headers] [--timeout <timeout>]
  Lists nothing: channels have no interceptors
  Listing channel interceptors ...
message_size_stats d 0-0 since=4.2 [--timeout <timeout>]
  Counts published messages by their sizes
  Gathering message size statistics across the cluster using node {node} ...
metadata_store_status d 0-0 since=3.13
  Shows the one node that keeps definitions
  Status of metadata store on node {node} ...

[Configuration and Environment]
set_channel_interceptor_priorities c 1-* since=4.3 <interceptor> <priority> [<interceptor> <priority> ...] [--timeout <timeout>]
  Fails: channels have no interceptors

[Feature flags]
list_deprecated_features cd 0-* since=3.13 [--used] [<column> ...]
  Lists deprecated features, or those in use

[Management plugin]
reset_stats_db c 0-* [--all]
  Begins the samples of the management API again
"""

VERBS: dict[str, VerbAction] = {
    "message_size_stats": VerbAction(_message_sizes, form="pretty_table"),
    "list_deprecated_features": VerbAction(
        _list_deprecated,
        options=(Option("used", bool),),
        check=check_columns(DEPRECATED_COLUMNS),
        banner=_deprecated_banner,
        form="pretty_table",
    ),
    "check_if_any_deprecated_features_are_used": VerbAction(_check_deprecated),
    "check_if_metadata_store_is_initialized": _passed(_INITIALIZED),
    "check_if_metadata_store_is_initialized_with_data": VerbAction(_check_data),
    "has_reached_target_cluster_size": _passed("Target cluster size has been reached on node {}"),
    "check_if_new_quorum_queue_replicas_have_finished_initial_sync": _passed(
        "Node {} reported no queues with promotable replicas"
    ),
    "check_for_quorum_queues_without_an_elected_leader": VerbAction(
        _check_leaders, options=(Option("across-all-vhosts", bool),), banner=_leaders_banner
    ),
    "metadata_store_status": _raft(3),
    "coordinator_status": _raft(7),
    "activate_free_disk_space_monitoring": asking(lambda call: MonitorDisk(on=True)),
    "deactivate_free_disk_space_monitoring": asking(lambda call: MonitorDisk(on=False)),
    "list_channel_interceptors": VerbAction(_no_interceptors),
    "set_channel_interceptor_priorities": VerbAction(_set_priorities, check=_check_pairs, banner=_pairs_banner),
    "reset_stats_db": VerbAction(
        asking(lambda call: ResetStatistics()).run, options=(Option("all", bool),), banner=_reset_banner
    ),
}
