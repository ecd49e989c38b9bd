"""Shovels: their states, restart, removal."""

from __future__ import annotations

from typing import Any

from broker.admin.commands.shovel_admin import DeleteShovel, ListShovels, RestartShovel
from broker.admin.protocol import AdministrationError
from broker.rabbitmq.ctl.dialect import Dialect
from broker.rabbitmq.ctl.outcomes import UNAVAILABLE, ListedRows, Outcome, VerbRefusal
from broker.rabbitmq.ctl.verb_call import VerbAction, VerbCall, asking, generally_refused

NAMES = {
    "src_queue": "source_queue",
    "src_exchange": "source_exchange",
    "src_exchange_key": "source_exchange_key",
    "src_protocol": "source_protocol",
    "dest_queue": "destination_queue",
    "dest_exchange": "destination_exchange",
    "dest_exchange_key": "destination_exchange_key",
    "dest_protocol": "destination_protocol",
    "vhost": "vhost",
}
"""Columns shown if they have a value, and their names in RabbitMQ."""


def _status(call: VerbCall) -> Outcome:
    """A table has the columns of the dialect, or those that some shovel has, by name."""
    rows = [_shown(row) for row in call.ask(ListShovels())]
    columns = call.dialect.shovel_columns or sorted({name for row in rows for name in row})
    return ListedRows(columns, [{name: row.get(name, "") for name in columns} for row in rows])


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    always = {"name": row["name"], "type": row["type"], "state": row["state"], "last_changed": row["timestamp"]}
    always |= {"source": row["src_uri"], "destination": row["dest_uri"], "termination_reason": row["reason"]}
    return always | {shown: row[name] for name, shown in NAMES.items() if row[name]}


def _absent(text: str, call: VerbCall, error: AdministrationError) -> VerbRefusal:
    if error.kind != "not_found":
        return generally_refused(call, error)
    return VerbRefusal(UNAVAILABLE, text.format(call.node, call.vhost))


def _not_restarted(call: VerbCall, error: AdministrationError) -> VerbRefusal:
    return _absent(Dialect().absent_shovel, call, error)


def _not_deleted(call: VerbCall, error: AdministrationError) -> VerbRefusal:
    return _absent(call.dialect.absent_shovel, call, error)


LINES = """
[Shovels]
delete_shovel c 1-1 [--vhost <vhost>] <name>
  Removes a dynamic shovel
  Deleting shovel {0} in vhost {vhost}
restart_shovel c 1-1 <name>
  Restarts a dynamic shovel
  Restarting dynamic Shovel {0} in virtual host {vhost} on node {node}
shovel_status cd 0-0
  Shows how shovels do
  Shovel status on node {node}
"""

VERBS: dict[str, VerbAction] = {
    "shovel_status": VerbAction(_status),
    "restart_shovel": asking(lambda call, name: RestartShovel(call.vhost, name), _not_restarted),
    "delete_shovel": asking(lambda call, name: DeleteShovel(call.vhost, name), _not_deleted),
}
