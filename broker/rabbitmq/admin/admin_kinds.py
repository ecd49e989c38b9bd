"""Objects that `rabbitmqadmin` lists, declares and deletes: their paths in the API, columns, arguments."""

from __future__ import annotations

import re
from typing import NamedTuple


class ListedKind(NamedTuple):
    """A kind of thing that is listed or shown.

    `path` is below /api; `in_vhost`: the things of one virtual host can be asked for. `columns` are those shown unasked,
    all if there are none; `in_json` the columns that are shown as JSON.
    """

    path: str
    in_vhost: bool = False
    columns: tuple[str, ...] = ()
    in_json: frozenset[str] = frozenset()


_DEFINITION = frozenset({"definition"})
_VALUE = frozenset({"value"})

LISTED = {
    "connections": ListedKind("connections", columns=("name", "user", "channels")),
    "channels": ListedKind("channels", columns=("name", "user")),
    "consumers": ListedKind("consumers", in_vhost=True),
    "exchanges": ListedKind("exchanges", in_vhost=True, columns=("name", "type")),
    "queues": ListedKind("queues", in_vhost=True, columns=("name", "messages")),
    "bindings": ListedKind("bindings", in_vhost=True, columns=("source", "destination", "routing_key")),
    "users": ListedKind("users"),
    "vhosts": ListedKind("vhosts", columns=("name", "messages")),
    "permissions": ListedKind("permissions"),
    "nodes": ListedKind("nodes", columns=("name", "type", "mem_used")),
    "parameters": ListedKind("parameters", in_json=_VALUE),
    "policies": ListedKind("policies", in_json=_DEFINITION),
    "operator_policies": ListedKind("operator-policies", in_json=_DEFINITION),
    "vhost_limits": ListedKind("vhost-limits", in_json=_VALUE),
}
SHOWN = {
    "overview": ListedKind(
        "overview", columns=("rabbitmq_version", "cluster_name", "queue_totals.messages", "object_totals.queues")
    ),
}
GOT = ListedKind("")
"""Messages of a queue."""
GOT_TO_FILE = ListedKind("", columns=("routing_key", "exchange", "message_count", "payload_bytes", "redelivered"))
"""The same where the payload is written to a file."""

FIRST_COLUMNS = ("vhost", "name", "type", "source", "destination", "destination_type", "routing_key")
"""They stand before all others, which follow in the order of their names."""


class ChangedKind(NamedTuple):
    """A kind of thing that something is done to.

    `path` is below /api, with names of arguments in braces. Of `needed` arguments, one is all of those with `|` between
    them. `possible` ones have their defaults, None for none.
    """

    method: str
    path: str
    needed: tuple[str, ...]
    possible: dict[str, str | None]

    @property
    def named(self) -> set[str]:
        """Every argument that may be given."""
        return {name for each in self.needed for name in each.split("|")} | self.possible.keys()


IN_JSON = frozenset({"arguments", "definition", "priority", "properties", "value"})
"""Arguments that are JSON."""

ACTIONS = """
declare exchange PUT exchanges/{vhost}/{name} name type [auto_delete=false durable=true internal=false arguments={}]
declare queue PUT queues/{vhost}/{name} name [auto_delete=false durable=true arguments={} node queue_type]
declare binding POST bindings/{vhost}/e/{source}/{destination_type}/{destination} source destination [destination_type=queue routing_key= arguments={}]
declare vhost PUT vhosts/{name} name [tracing]
declare user PUT users/{name} name password|password_hash tags [hashing_algorithm]
declare permission PUT permissions/{vhost}/{user} vhost user configure write read
declare parameter PUT parameters/{component}/{vhost}/{name} component name value
declare policy PUT policies/{vhost}/{name} name pattern definition [priority=0 apply-to]
declare operator_policy PUT operator-policies/{vhost}/{name} name pattern definition [priority=0 apply-to]
declare vhost_limit PUT vhost-limits/{vhost}/{name} vhost name value
delete exchange DELETE exchanges/{vhost}/{name} name
delete queue DELETE queues/{vhost}/{name} name
delete binding DELETE bindings/{vhost}/e/{source}/{destination_type}/{destination}/{properties_key} source destination_type destination [properties_key=~]
delete vhost DELETE vhosts/{name} name
delete user DELETE users/{name} name
delete permission DELETE permissions/{vhost}/{user} vhost user
delete parameter DELETE parameters/{component}/{vhost}/{name} component name
delete policy DELETE policies/{vhost}/{name} name
delete operator_policy DELETE operator-policies/{vhost}/{name} name
delete vhost_limit DELETE vhost-limits/{vhost}/{name} vhost name
close connection DELETE connections/{name} name
purge queue DELETE queues/{vhost}/{name}/contents name
publish message POST exchanges/{vhost}/{exchange}/publish routing_key [payload properties={} exchange=amq.default payload_encoding=string]
get messages POST queues/{vhost}/{queue}/get queue [count=1 ackmode=ack_requeue_true payload_file encoding=auto]
"""
"""Verb, object, request and arguments; those in brackets are optional."""

_LINE = re.compile(
    r"(?P<action>\w+) (?P<kind>\w+) (?P<method>\w+) (?P<path>\S+) (?P<needed>[^\[]*)(\[(?P<possible>.*)\])?"
)


def _read(text: str) -> dict[str, dict[str, ChangedKind]]:
    actions: dict[str, dict[str, ChangedKind]] = {}
    for line in text.strip().splitlines():
        found = _LINE.fullmatch(line)
        assert found is not None, line
        possible = [word.partition("=") for word in (found["possible"] or "").split()]
        kind = ChangedKind(
            found["method"],
            found["path"],
            tuple(found["needed"].split()),
            {name: default if equals else None for name, equals, default in possible},
        )
        actions.setdefault(found["action"], {})[found["kind"]] = kind
    return actions


CHANGED = _read(ACTIONS)
"""By action and kind."""
PUBLISH, GET = CHANGED["publish"]["message"], CHANGED["get"]["messages"]
