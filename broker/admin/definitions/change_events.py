"""What changes of users, virtual hosts, permissions, policies, limits and parameters are as events.

A change is looked at before it takes effect: whether a user is new, and what it has lost, shows only then.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from broker.credentials import without_credentials
from broker.entities.arguments.erlang_terms import Atom, Term, printed
from broker.entities.exchanges.event_exchange import INTERNAL
from broker.entities.node.broker import Broker
from broker.entities.node.parameters import LIMITS, OPERATOR_POLICY, VHOST_LIMITS
from broker.entities.node.user_limits import OF_VHOSTS
from broker.entities.vhosts.vhost import DEFAULT_EXCHANGES, TRACE_EXCHANGE
from storage.definitions.definition_changes import (
    Change,
    DeleteGlobalParameter,
    DeleteParameter,
    DeletePermission,
    DeletePolicy,
    DeleteTopicPermission,
    DeleteUser,
    DeleteUserLimit,
    DeleteVhost,
    DeleteVhostLimit,
    PolicyRow,
    PutGlobalParameter,
    PutParameter,
    PutPermission,
    PutPolicy,
    PutTopicPermission,
    PutUser,
    PutUserLimit,
    PutVhost,
    PutVhostLimit,
    VhostRow,
)

_LIMITS = {"name": LIMITS}


class Event(NamedTuple):
    """A key, and headers. `by` is who did it, unless it is the one that makes the change."""

    key: str
    headers: dict[str, Any]
    by: str | None = None


def events_of(broker: Broker, changes: Iterable[Change]) -> list[Event]:
    """The events that changes are, which are about to take effect. Limits changed together are one."""
    together: dict[tuple[type[Any], object], list[Change]] = {}
    for change in changes:
        together.setdefault(_group(change), []).append(change)
    return [event for (kind, _), alike in together.items() if kind in _EVENTS for event in _EVENTS[kind](broker, alike)]


def _group(change: Change) -> tuple[type[Any], object]:
    if isinstance(change, PutVhostLimit):
        return PutVhostLimit, change.row.vhost
    if isinstance(change, DeleteVhostLimit):
        return PutVhostLimit, change.vhost
    if isinstance(change, PutUserLimit):
        return PutUserLimit, change.row.user
    return (DeleteUserLimit, change.user) if isinstance(change, DeleteUserLimit) else (type(change), change)


def _put_vhost(broker: Broker, changes: Sequence[PutVhost]) -> Iterator[Event]:
    row = changes[0].row
    if row.name in broker.vhosts:
        yield from _vhost_changed(broker, row)
        return
    for name, type_ in DEFAULT_EXCHANGES.items():
        flags = {"durable": True, "auto_delete": False, "internal": name == TRACE_EXCHANGE}
        headers = {"name": name, "vhost": row.name, "type": type_, **flags, "arguments": [], "policy": ""}
        yield Event("exchange.created", headers)
    yield Event("vhost.created", {**_vhost(broker, row), "tags": list(row.tags) or ""})


def _vhost_changed(broker: Broker, row: VhostRow) -> Iterator[Event]:
    vhost = broker.vhosts[row.name]
    if row.tags != vhost.description.tags and row[1:] == vhost.description._replace(tags=row.tags):
        yield Event("vhost.tags.set", {"name": row.name, "tags": list(row.tags)})
    elif row[1:] != vhost.description:
        yield Event("vhost.updated", {**_vhost(broker, row), "tracing": vhost.traced})


def _vhost(broker: Broker, row: VhostRow) -> dict[str, Any]:
    assert broker.event_exchange is not None
    return {
        "name": row.name,
        "default_queue_type": row.default_queue_type or "undefined",
        "metadata": _metadata(row),
        "tracing": False,
        "cluster_state": {broker.event_exchange.node: "running"},
        "description": row.description,
        "tags": list(row.tags),
    }


def _metadata(row: VhostRow) -> str:
    """A virtual host's description as the Erlang map that the plugin shows."""
    said: dict[str, Term] = {"description": row.description.encode(), "tags": [Atom(tag) for tag in row.tags]}
    if row.default_queue_type:
        said = {"default_queue_type": row.default_queue_type.encode(), **said}
    return f"#{{{','.join(f'{name} => {printed(term)}' for name, term in said.items())}}}"


def _delete_vhost(broker: Broker, changes: Sequence[DeleteVhost]) -> Iterator[Event]:
    name, users = changes[0].name, broker.users
    for vhost, user in users.permissions:
        if vhost == name:
            yield Event("permission.deleted", {"user": user, "vhost": name})
    for user in dict.fromkeys(user for vhost, user, _ in users.topic_permissions if vhost == name):
        yield Event("topic.permission.deleted", {"user": user, "vhost": name})
    yield Event("vhost.deleted", {"name": name})
    if broker.user_limits.vhosts.get(name):
        yield from _vhost_limits_cleared(name)
    assert broker.event_exchange is not None
    yield Event("vhost.down", {"name": name, "node": broker.event_exchange.node}, INTERNAL)


def _put_user(broker: Broker, changes: Sequence[PutUser]) -> Iterator[Event]:
    row = changes[0].row
    before = broker.users.by_name.get(row.name)
    named = {"name": row.name}
    if before is None:
        yield Event("user.created", named)
    elif before.password_hash != row.password_hash:
        yield Event("user.password.changed" if row.password_hash else "user.password.cleared", named)
    if row.tags != (() if before is None else before.tags):
        yield Event("user.tags.set", {**named, "tags": list(row.tags)})


def _delete_user(broker: Broker, changes: Sequence[DeleteUser]) -> Iterator[Event]:
    yield Event("user.deleted", {"name": changes[0].name})


def _put_permission(broker: Broker, changes: Sequence[PutPermission]) -> Iterator[Event]:
    yield Event("permission.created", changes[0].row._asdict())


def _delete_permission(broker: Broker, changes: Sequence[DeletePermission]) -> Iterator[Event]:
    change = changes[0]
    if (change.vhost, change.user) in broker.users.permissions:
        yield Event("permission.deleted", change._asdict())


def _put_topic_permission(broker: Broker, changes: Sequence[PutTopicPermission]) -> Iterator[Event]:
    yield Event("topic.permission.created", changes[0].row._asdict())


def _delete_topic_permission(broker: Broker, changes: Sequence[DeleteTopicPermission]) -> Iterator[Event]:
    user, vhost, exchange = changes[0]
    named = {} if exchange is None else {"exchange": exchange}
    if any((vhost, user) == place[:2] and exchange in (None, place[2]) for place in broker.users.topic_permissions):
        yield Event("topic.permission.deleted", {"user": user, "vhost": vhost, **named})


def _put_policy(broker: Broker, changes: Sequence[PutPolicy]) -> Iterator[Event]:
    row = changes[0].row
    described = _policy(row)
    if row.operator:
        yield Event("parameter.set", _parameter(row.vhost, OPERATOR_POLICY, row.name, described))
    yield Event("policy.set", {"name": row.name, "vhost": row.vhost, **described})


def _policy(row: PolicyRow) -> dict[str, Any]:
    definition = json.loads(row.definition)
    return {"pattern": row.pattern, "definition": definition, "priority": row.priority, "apply-to": row.apply_to}


def _delete_policy(broker: Broker, changes: Sequence[DeletePolicy]) -> Iterator[Event]:
    vhost, name, operator = changes[0]
    if operator:
        yield Event("parameter.cleared", _cleared(vhost, OPERATOR_POLICY, name))
    yield Event("operator.policy.cleared" if operator else "policy.cleared", {"name": name, "vhost": vhost})


def _vhost_limits(broker: Broker, changes: Sequence[PutVhostLimit | DeleteVhostLimit]) -> Iterator[Event]:
    """A virtual host's limits are one parameter: set to all that hold from now on, or cleared where all are lifted."""
    _, vhost = _group(changes[0])
    assert isinstance(vhost, str)
    before = broker.user_limits.vhosts.get(vhost, {})
    given = {change.row.name: change.row.value for change in changes if isinstance(change, PutVhostLimit)}
    lifted = {change.name for change in changes if isinstance(change, DeleteVhostLimit)}
    if given or (before and not lifted >= OF_VHOSTS):
        limits = {name: value for name, value in {**before, **given}.items() if name not in lifted}
        yield Event("parameter.set", _parameter(vhost, VHOST_LIMITS, LIMITS, limits or []))
        yield Event("vhost.limits.set", {**_LIMITS, **limits})
    elif before:
        yield from _vhost_limits_cleared(vhost)


def _vhost_limits_cleared(vhost: str) -> Iterator[Event]:
    yield Event("parameter.cleared", _cleared(vhost, VHOST_LIMITS, LIMITS))
    yield Event("vhost.limits.cleared", _LIMITS)


def _put_user_limits(broker: Broker, changes: Sequence[PutUserLimit]) -> Iterator[Event]:
    limits = {change.row.name: change.row.value for change in changes}
    yield Event("user.limits.set", {**_LIMITS, "username": changes[0].row.user, **limits})


def _delete_user_limits(broker: Broker, changes: Sequence[DeleteUserLimit]) -> Iterator[Event]:
    yield Event("user.limits.cleared", {**_LIMITS, "username": changes[0].user})


def _put_parameter(broker: Broker, changes: Sequence[PutParameter]) -> Iterator[Event]:
    vhost, component, name, value = changes[0].row
    yield Event("parameter.set", _parameter(vhost, component, name, json.loads(value)))


def _delete_parameter(broker: Broker, changes: Sequence[DeleteParameter]) -> Iterator[Event]:
    yield Event("parameter.cleared", changes[0]._asdict())


def _put_global_parameter(broker: Broker, changes: Sequence[PutGlobalParameter]) -> Iterator[Event]:
    name, value = changes[0].row
    yield Event("parameter.set", {"component": "global", "name": name, "value": without_credentials(json.loads(value))})


def _delete_global_parameter(broker: Broker, changes: Sequence[DeleteGlobalParameter]) -> Iterator[Event]:
    yield Event("parameter.cleared", {"component": "global", "name": changes[0].name})


def _parameter(vhost: str, component: str, name: str, value: object) -> dict[str, Any]:
    return {**_cleared(vhost, component, name), "value": without_credentials(value)}


def _cleared(vhost: str, component: str, name: str) -> dict[str, Any]:
    return {"vhost": vhost, "component": component, "name": name}


_EVENTS: dict[type[Any], Callable[[Broker, Any], Iterator[Event]]] = {
    PutVhost: _put_vhost,
    DeleteVhost: _delete_vhost,
    PutUser: _put_user,
    DeleteUser: _delete_user,
    PutPermission: _put_permission,
    DeletePermission: _delete_permission,
    PutTopicPermission: _put_topic_permission,
    DeleteTopicPermission: _delete_topic_permission,
    PutPolicy: _put_policy,
    DeletePolicy: _delete_policy,
    PutVhostLimit: _vhost_limits,
    PutUserLimit: _put_user_limits,
    DeleteUserLimit: _delete_user_limits,
    PutParameter: _put_parameter,
    DeleteParameter: _delete_parameter,
    PutGlobalParameter: _put_global_parameter,
    DeleteGlobalParameter: _delete_global_parameter,
}
