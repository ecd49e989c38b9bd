"""Lists that take more than one request, or a choice among rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from broker.rabbitmq.admin_v2.command_call import CommandCall

Rows = list[dict[str, Any]]
QUEUE_TARGETS = ("queues", "classic_queues", "quorum_queues", "streams")


def _parameters(call: CommandCall) -> None:
    if call.values["component"] is not None:
        call.show("parameters", call.list(call.path("parameters/{component}/{vhost}")))
        return
    call.show("parameters", [row for row in call.list("parameters") if row["vhost"] == call.vhost])


def _user_limits(call: CommandCall) -> None:
    path = "user-limits" if call.values["username"] is None else call.path("user-limits/{username}")
    call.show("user_limits", call.list(path))


def _plugins(call: CommandCall) -> None:
    nodes = [row["name"] for row in call.list("nodes")]
    call.show("plugins", [row for node in nodes for row in _plugins_on(call, node)])


def _plugins_on(call: CommandCall, node: str) -> Rows:
    names = call.get(call.path("nodes/{node}", node=node)).get("enabled_plugins", [])
    return [{"node": node, "name": name, "state": "Enabled"} for name in sorted(set(names))]


def _federation_upstreams(call: CommandCall) -> None:
    call.show("federation_upstreams", call.list("parameters/federation-upstream"))


def _policies_in(what: str) -> Callable[[CommandCall], None]:
    def listed(call: CommandCall) -> None:
        rows, target = call.list(call.path(f"{what}/{{vhost}}")), call.values["apply_to"]
        call.show("policies", [row for row in rows if target is None or applies(target, row["apply-to"])])

    return listed


def _policies_matching(what: str) -> Callable[[CommandCall], None]:
    def listed(call: CommandCall) -> None:
        name, target = call.values["name"], call.values["type"]
        rows = [row for row in call.list(call.path(f"{what}/{{vhost}}")) if applies(row["apply-to"], target)]
        call.show("policies", sorted((row for row in rows if matches(row["pattern"], name)), key=_by_priority))

    return listed


def _by_priority(row: Mapping[str, Any]) -> int:
    return -int(row["priority"])


def _conflicting(call: CommandCall) -> None:
    call.show("policies", _of_one_priority(call.list("policies")))


def _conflicting_in(call: CommandCall) -> None:
    call.show("policies", _of_one_priority(call.list(call.path("policies/{vhost}"))))


def _of_one_priority(rows: Sequence[dict[str, Any]]) -> Rows:
    """Those that share their priority with another one of their virtual host."""
    counts = Counter((row["vhost"], row["priority"]) for row in rows)
    return [row for row in rows if counts[row["vhost"], row["priority"]] > 1]


def applies(target: str, kind: str) -> bool:
    """A policy for `target` is one for objects of that kind, or objects of both kinds may be meant."""
    return "all" in (target, kind) or target == kind or (target == "queues" and kind in QUEUE_TARGETS)


def matches(pattern: str, name: str) -> bool:
    """A policy's pattern takes a name; one that makes no sense takes none."""
    try:
        return re.search(pattern, name) is not None
    except re.error:
        return False


LISTINGS: dict[str, Callable[[CommandCall], None]] = {
    "parameters list": _parameters,
    "user_limits list": _user_limits,
    "plugins list_all": _plugins,
    "plugins list_on_node": lambda call: call.show("plugins", _plugins_on(call, call.values["node"])),
    "federation list_all_upstreams": _federation_upstreams,
    "policies list_in": _policies_in("policies"),
    "operator_policies list_in": _policies_in("operator-policies"),
    "policies list_matching_object": _policies_matching("policies"),
    "operator_policies list_matching_object": _policies_matching("operator-policies"),
    "policies list_conflicting": _conflicting,
    "policies list_conflicting_in": _conflicting_in,
}
"""By the names of their commands."""
