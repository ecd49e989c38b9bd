"""Replicas of quorum queues and streams, of which there is one: what RabbitMQ answers on a single node."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from broker.admin.commands.queue_admin import ListQueues
from broker.admin.commands.vhost_admin import ListVhosts
from broker.rabbitmq.ctl.line_options import Option
from broker.rabbitmq.ctl.outcomes import DATA, UNAVAILABLE, ListedRows, Misuse, Outcome, VerbRefusal
from broker.rabbitmq.ctl.verb_call import VerbAction, VerbCall
from broker.rabbitmq.ctl.verbs.feature_verbs import raft_status

QUORUM, STREAM = "quorum", "stream"
QUEUES_MACHINE = 8
"""Version of the state machine of RabbitMQ 4.3's quorum queues."""
STRATEGIES, MEMBERSHIPS = ("all", "even"), ("promotable", "non_voter", "voter")
SIZE_COLUMNS = ("vhost", "name", "size", "result")


def _type(call: VerbCall) -> str:
    """Return the type that a program is for."""
    return STREAM if call.tool == "rabbitmq-streams" else QUORUM


def _replicated(call: VerbCall) -> Iterator[Mapping[str, Any]]:
    """Yield the queues of the program's type whose names match. Raises VerbRefusal."""
    vhosts, names = (_pattern(call, option) for option in ("vhost-pattern", "queue-pattern"))
    for vhost in call.ask(ListVhosts(columns=["name"])):
        if vhosts.search(vhost["name"]):
            rows = call.ask(ListQueues(vhost=vhost["name"], columns=["name", "type"]))
            yield from (
                {"vhost": vhost["name"], "name": row["name"]}
                for row in rows
                if row["type"] == _type(call) and names.search(row["name"])
            )


def _pattern(call: VerbCall, option: str) -> re.Pattern[str]:
    try:
        return re.compile(call.options.get(option, ".*"))
    except re.error as error:
        raise VerbRefusal(UNAVAILABLE, f"--{option} is no regular expression: {error}") from None


def _assert_member(call: VerbCall, node: str) -> None:
    if node != call.node:
        raise Misuse(f"node {node} is not a member of the cluster", of_arguments=False)


def _type_named(call: VerbCall) -> str:
    """Return the type of the queue that is named first. Raises VerbRefusal."""
    name = call.arguments[0]
    rows = call.ask(ListQueues(vhost=call.vhost, columns=["name", "type"]))
    for row in rows:
        if row["name"] == name:
            return str(row["type"])
    raise VerbRefusal(DATA, f"queue '{name}' was not found in virtual host '{call.vhost}'", headed=False)


# Many queues


def _grow(call: VerbCall) -> Outcome:
    call.connect()
    return ListedRows(SIZE_COLUMNS, (), streamed=False)


def _check_strategy(call: VerbCall) -> None:
    strategy, membership = call.arguments[1], call.options.get("membership", "promotable")
    if strategy not in STRATEGIES:
        raise Misuse(f"\"strategy '{strategy}' is not recognised.\"")
    if membership not in MEMBERSHIPS:
        raise Misuse(f"\"voter status '{membership}' is not recognised.\"")


def _check_grow(call: VerbCall) -> None:
    _check_strategy(call)
    _assert_member(call, call.arguments[0])


def _check_count(call: VerbCall) -> None:
    count = call.arguments[0]
    if not re.fullmatch(r"-?\d+", count):
        raise Misuse(f"\"node count '{count}' is not a number.\"")
    _check_strategy(call)
    if int(count) <= 0:
        raise Misuse(f"\"node count '{count}' must be greater than 0.\"")


def _shrink(call: VerbCall) -> Outcome:
    if call.arguments[0] != call.node:
        if _type(call) == QUORUM:
            raise VerbRefusal(UNAVAILABLE, f"{{:node_not_running, :{call.arguments[0]}}}")
        return ListedRows(SIZE_COLUMNS, (), streamed=False)
    last = "the last replica cannot be removed" if _type(call) == STREAM else "the last node cannot be removed"
    rows = [{**queue, "size": 1, "result": f"error: {last}"} for queue in _replicated(call)]
    return ListedRows(SIZE_COLUMNS, rows, streamed=False)


def _checkpoint(call: VerbCall) -> Outcome:
    found = [] if call.options.get("errors-only") else list(_replicated(call))
    return ListedRows(("vhost", "name", "result"), [{**queue, "result": ("ok",)} for queue in found], streamed=False)


# One queue


def _transfer(call: VerbCall) -> Outcome:
    found, node = _type_named(call), call.arguments[1]
    if _type(call) == STREAM:
        if found != STREAM:
            raise VerbRefusal(UNAVAILABLE, f"Cannot transfer leadership of a {found} queue")
        return call.said(call.node)
    if found != QUORUM:
        raise VerbRefusal(UNAVAILABLE, "Cannot transfer leadership of a non-quorum queue")
    already = "The target node is already the leader of this queue"
    raise VerbRefusal(UNAVAILABLE, already if node == call.node else "unknown_member")


def _assert_quorum(call: VerbCall, refusal: str) -> None:
    found = _type_named(call)
    if found != QUORUM:
        raise VerbRefusal(UNAVAILABLE, refusal.format(found))


_UNSUPPORTED = "{{:unsupported, :rabbit_{}_queue}}"


def _status(call: VerbCall) -> Outcome:
    _assert_quorum(call, _UNSUPPORTED)
    return raft_status(call, QUEUES_MACHINE)


def _check_member(call: VerbCall) -> None:
    _assert_member(call, call.arguments[1])


def _add_member(call: VerbCall) -> Outcome:
    _assert_quorum(call, _UNSUPPORTED)
    return call.done()


def _delete_member(call: VerbCall) -> Outcome:
    _assert_quorum(call, _UNSUPPORTED)
    if call.arguments[1] == call.node:
        raise VerbRefusal(UNAVAILABLE, "last_node")
    return call.done()


def _reclaim(call: VerbCall) -> Outcome:
    try:
        _assert_quorum(call, "This operation is not applicable to {} queues")
    except VerbRefusal as refusal:
        if refusal.code != DATA:
            raise
        raise VerbRefusal(UNAVAILABLE, f"Target queue was not found in virtual host '{call.vhost}'") from None
    return call.done()


_MATCHING = (Option("vhost-pattern", str), Option("queue-pattern", str), Option("errors-only", bool))
_MEMBERSHIP = Option("membership", str)
LINES = """
[Cluster]
grow q 2-2 since=4.2 <node> <all | even> [--vhost-pattern <pattern>] [--queue-pattern <pattern>] [--membership <promotable|voter>]
  Does nothing: each queue is on its node already
  Growing {1} queues on {0}...
grow s 2-2 since=4.2 <node> <all | even> [--vhost-pattern <pattern>] [--queue-pattern <pattern>] [--errors-only]
  Does nothing: each stream is on its node already
  Growing {1} streams on {0}...
grow_to_count q 2-2 since=4.3 <node_count> <all | even> [--vhost-pattern <pattern>] [--queue-pattern <pattern>] [--membership <promotable|voter>]
  Does nothing: each queue is on its node already
  Growing {1} quorum queues on {0} nodes...
shrink q 1-1 since=4.2 <node> [--errors-only]
  Fails for each queue: it is on one node
  Shrinking queues on {0}...
shrink s 1-1 since=4.2 <node> [--errors-only]
  Fails for each stream: it is on one node
  Shrinking streams on {0}...

[Replication]
add_member q 2-2 since=4.2 [--vhost <vhost>] <queue> <node> [--membership <promotable|voter>] [--timeout <timeout>]
  Does nothing: a queue is on its node already
  Adding a member for queue {0} on node {1}...
delete_member q 2-2 since=4.2 [--vhost <vhost>] <queue> <node>
  Fails: a queue is on one node
  Removing a replica of queue {0} on node {1}...
force_checkpoint q 0-0 since=4.2 [--vhost-pattern <pattern>] [--queue-pattern <pattern>]
  Does nothing: what a queue has stored is the newest state already
  Forcing checkpoint for all matching quorum queues...
reclaim_quorum_memory dq 1-1 since=4.2 [--vhost <vhost>] <quorum queue>
  Does nothing: a queue keeps no log in memory
  Will garbage collect quorum queue {0} ...
transfer_leadership q 2-2 since=4.2 [--vhost <vhost>] <queue> <node> [--timeout <timeout>]
  Fails: the one node is the leader already
  Transferring leadership of quorum queue {0} to node {1}...
transfer_leadership s 2-2 since=4.2 [--vhost <vhost>] <stream> <node> [--timeout <timeout>]
  Does nothing: the one node is the leader already
  Transferring leadership of stream {0} to node {1}...

[Monitoring, observability and health checks]
quorum_status dq 1-1 since=4.2 [--vhost <vhost>] <queue>
  Shows the one member of a quorum queue
  Status of queue {0} on node {node} ...
"""

VERBS: dict[str, VerbAction] = {
    "grow": VerbAction(_grow, options=(*_MATCHING, _MEMBERSHIP), check=_check_grow),
    "grow_to_count": VerbAction(_grow, options=(*_MATCHING, _MEMBERSHIP), check=_check_count),
    "shrink": VerbAction(_shrink, options=_MATCHING),
    "force_checkpoint": VerbAction(_checkpoint, options=_MATCHING),
    "transfer_leadership": VerbAction(_transfer),
    "quorum_status": VerbAction(_status, form="pretty_table"),
    "add_member": VerbAction(_add_member, options=(_MEMBERSHIP,), check=_check_member),
    "delete_member": VerbAction(_delete_member),
    "reclaim_quorum_memory": VerbAction(_reclaim),
}
