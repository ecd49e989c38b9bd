"""Queues and connections: purged, deleted, closed."""

from __future__ import annotations

import time

from broker.admin.commands.connection_admin import CloseConnection, CloseConnections
from broker.admin.commands.queue_admin import DeleteQueue, ListQueues, PurgeQueue
from broker.admin.protocol import AdministrationError
from broker.rabbitmq.ctl.line_options import Option
from broker.rabbitmq.ctl.outcomes import UNAVAILABLE, USAGE, Outcome, VerbRefusal, bad_argument
from broker.rabbitmq.ctl.verb_call import VerbAction, VerbCall, asking, generally_refused


def _not_found(call: VerbCall, error: AdministrationError) -> VerbRefusal:
    return call.dialect.absent.refusal() if error.kind == "not_found" else generally_refused(call, error)


def _delete_queue(call: VerbCall) -> Outcome:
    conditions = {"if_empty": bool(call.options.get("if-empty")), "if_unused": bool(call.options.get("if-unused"))}
    deleted = call.ask(DeleteQueue(vhost=call.vhost, name=call.arguments[0], **conditions))
    return call.message(f"Queue was successfully deleted with {deleted['messages']} ready messages")


def _kept(call: VerbCall, error: AdministrationError) -> VerbRefusal:
    if error.kind == "not_found":
        return VerbRefusal(USAGE, call.dialect.absent_queue)
    if error.kind == "refused":
        return VerbRefusal(USAGE, f"Queue is {'in use' if str(error).endswith('in use') else 'not empty'}")
    return generally_refused(call, error)


def _check_queue(call: VerbCall) -> None:
    if not call.arguments[0]:
        raise bad_argument("queue name cannot be an empty string")


def _delete_banner(call: VerbCall) -> str:
    conditions = [f"if queue is {what}" for what in ("empty", "unused") if call.options.get(f"if-{what}")]
    words = [
        f"Deleting queue '{call.arguments[0]}' on vhost '{call.vhost}'",
        *([" and ".join(conditions)] * bool(conditions)),
    ]
    return f"{' '.join(words)} ..."


def _close_connection(call: VerbCall) -> Outcome:
    pid, reason = call.arguments
    try:
        call.ask(CloseConnection(name=pid, reason=reason))
    except AdministrationError as error:
        if error.kind != "not_found":
            raise
        if not (pid.startswith("<") and pid.endswith(">") and pid.count(".") >= 2) and " -> " not in pid:
            raise VerbRefusal(UNAVAILABLE, f'Error:\n{{:invalid_pid_syntax, "{pid}"}}') from error
    return call.done()


def _close_all_connections(call: VerbCall) -> Outcome:
    vhost = None if call.options.get("global") else call.vhost
    limit, delay = call.options.get("limit", 0), call.options.get("per-connection-delay", 0)
    if call.options.get("global"):
        limit = 0
    closed = 0
    if delay:
        while (not limit or closed < limit) and _close(call, vhost, 1):
            closed += 1
            time.sleep(delay / 1000)
    else:
        closed = _close(call, vhost, limit)
    return call.said(f"Closed {closed} connections")


def _close(call: VerbCall, vhost: str | None, limit: int) -> int:
    closed: int = call.ask(CloseConnections(reason=call.arguments[0], vhost=vhost, limit=limit or None))["closed"]
    return closed


def _close_all_banner(call: VerbCall) -> str:
    reason, limit = call.arguments[0], call.options.get("limit", 0)
    if call.options.get("global"):
        return f"Closing all connections to node {call.node} (across all vhosts), reason: {reason}..."
    return f"Closing {limit or 'all'} connections in vhost {call.vhost}, reason: {reason}..."


def _sync_queue(call: VerbCall) -> Outcome:
    names = {row["name"] for row in call.ask(ListQueues(vhost=call.vhost, columns=["name"]))}
    if call.arguments[0] not in names:
        raise VerbRefusal(UNAVAILABLE, "not_found")
    return call.done()


_CONDITIONS = (Option("if-empty", bool, "e"), Option("if-unused", bool, "u"))
_CLOSING = (Option("global", bool), Option("limit", int), Option("per-connection-delay", int))
LINES = """
[Replication]
cancel_sync_queue c 1-1 until=3.13 [--vhost <vhost>] <queue>
  Does nothing: no queue is mirrored
  Stopping synchronising queue '{0}' in vhost '{vhost}' ...
sync_queue c 1-1 until=3.13 [--vhost <vhost>] <queue>
  Does nothing: no queue is mirrored
  Synchronising queue '{0}' in vhost '{vhost}' ...

[Operations]
close_all_connections c 1-1 [--vhost <vhost> --limit <limit>] [-n <node> --global] [--per-connection-delay <delay>] <explanation>
  Closes the connections of a virtual host, or all
close_all_user_connections c 2-2 <username> <explanation>
  Closes the connections of a user
  Closing connections of user {0}, reason: {1}...
close_connection c 2-2 <connection pid> <explanation>
  Closes the connection of a pid
  Closing connection {0}, reason: {1}...

[Queues]
delete_queue c 1-1 <queue_name> [--if-empty|-e] [--if-unused|-u] [--timeout <timeout>]
  Deletes a queue
purge_queue c 1-1 <queue> [--timeout <timeout>]
  Discards the ready messages of a queue
  Purging queue '{0}' in vhost '{vhost}' ...
"""

VERBS: dict[str, VerbAction] = {
    "purge_queue": asking(lambda call, name: PurgeQueue(vhost=call.vhost, name=name), _not_found),
    "delete_queue": VerbAction(_delete_queue, _kept, _CONDITIONS, _check_queue, _delete_banner),
    "close_connection": VerbAction(_close_connection),
    "close_all_connections": VerbAction(_close_all_connections, options=_CLOSING, banner=_close_all_banner),
    "close_all_user_connections": asking(lambda call, user, reason: CloseConnections(user=user, reason=reason)),
    "sync_queue": VerbAction(_sync_queue, _not_found),
    "cancel_sync_queue": VerbAction(_sync_queue, _not_found),
}
