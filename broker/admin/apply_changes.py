"""What a change of users, virtual hosts, permissions, limits, policies and parameters means for the broker in memory.

The same table serves a start, which replays what the definitions store holds, and a command, which has the
store make the change first. So a change can mean only one thing. Exchanges, queues and bindings are not here:
their changes begin in memory and lead to the store.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from broker.entities.arguments.name_patterns import NamePattern
from broker.entities.arguments.policies import Policy
from broker.entities.exchanges.event_exchange import INTERNAL
from broker.entities.node.broker import Broker
from broker.entities.node.users import Permission, TopicPermission, User
from broker.entities.scheduling.future import Future
from broker.entities.vhosts.vhost import VHostDescription
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
    PutGlobalParameter,
    PutParameter,
    PutPermission,
    PutPolicy,
    PutTopicPermission,
    PutUser,
    PutUserLimit,
    PutVhost,
    PutVhostLimit,
)


def take_effect(broker: Broker, change: Change, by: str = INTERNAL) -> Future[None]:
    """Have a change that is on disk hold for the broker at once. Changes that memory knows nothing of do nothing.

    A policy of many queues holds for all of them some turns later, when the future is settled. `by` is the user that
    makes the change: events of the queues and exchanges that go with a virtual host name it.
    """
    if isinstance(change, DeleteVhost):
        _delete_vhost(broker, change, by)
        broker.users.changed()
        return _HOLDS
    effect = _EFFECTS.get(type(change))
    if effect is None:
        return _HOLDS
    holds = effect(broker, change)
    broker.users.changed()
    return _HOLDS if holds is None else holds


def _put_vhost(broker: Broker, change: PutVhost) -> None:
    row = change.row
    said = VHostDescription(row.description, row.tags, row.default_queue_type)
    broker.add_vhost(row.name).description = said


def _delete_vhost(broker: Broker, change: DeleteVhost, by: str) -> None:
    if change.name in broker.vhosts:
        broker.remove_vhost(change.name, by)


def _put_user(broker: Broker, change: PutUser) -> None:
    broker.users.by_name[change.row.name] = User(*change.row)


def _delete_user(broker: Broker, change: DeleteUser) -> None:
    if change.name in broker.users.by_name:
        broker.users.forget_user(change.name)
    broker.user_limits.users.pop(change.name, None)


def _put_permission(broker: Broker, change: PutPermission) -> None:
    row = change.row
    broker.users.permissions[row.vhost, row.user] = Permission(row.configure, row.write, row.read)


def _delete_permission(broker: Broker, change: DeletePermission) -> None:
    broker.users.permissions.pop((change.vhost, change.user), None)


def _put_topic_permission(broker: Broker, change: PutTopicPermission) -> None:
    row = change.row
    broker.users.topic_permissions[row.vhost, row.user, row.exchange] = TopicPermission(row.write, row.read)


def _delete_topic_permission(broker: Broker, change: DeleteTopicPermission) -> None:
    permissions = broker.users.topic_permissions
    for vhost, user, exchange in list(permissions):
        if (vhost, user) == (change.vhost, change.user) and change.exchange in (None, exchange):
            del permissions[vhost, user, exchange]


def _put_user_limit(broker: Broker, change: PutUserLimit) -> None:
    broker.user_limits.users.setdefault(change.row.user, {})[change.row.name] = change.row.value


def _delete_user_limit(broker: Broker, change: DeleteUserLimit) -> None:
    broker.user_limits.users.get(change.user, {}).pop(change.name, None)


def _put_vhost_limit(broker: Broker, change: PutVhostLimit) -> None:
    broker.user_limits.vhosts.setdefault(change.row.vhost, {})[change.row.name] = change.row.value


def _delete_vhost_limit(broker: Broker, change: DeleteVhostLimit) -> None:
    broker.user_limits.vhosts.get(change.vhost, {}).pop(change.name, None)


def _put_policy(broker: Broker, change: PutPolicy) -> Future[None]:
    row = change.row
    policy = Policy(row.name, NamePattern(row.pattern), row.apply_to, json.loads(row.definition), row.priority)
    return broker.vhosts[row.vhost].policy_application.put(policy, operator=row.operator)


def _delete_policy(broker: Broker, change: DeletePolicy) -> Future[None]:
    return broker.vhosts[change.vhost].policy_application.remove(change.name, operator=change.operator)


def _put_parameter(broker: Broker, change: PutParameter) -> None:
    row = change.row
    broker.parameters.put(row.vhost, row.component, row.name, json.loads(row.value))


def _delete_parameter(broker: Broker, change: DeleteParameter) -> None:
    broker.parameters.discard(change.vhost, change.component, change.name)


def _put_global_parameter(broker: Broker, change: PutGlobalParameter) -> None:
    broker.parameters.everywhere[change.row.name] = json.loads(change.row.value)


def _delete_global_parameter(broker: Broker, change: DeleteGlobalParameter) -> None:
    broker.parameters.everywhere.pop(change.name, None)


_HOLDS: Future[None] = Future.resolved(None)
_EFFECTS: dict[type[Any], Callable[[Broker, Any], Future[None] | None]] = {
    PutVhost: _put_vhost,
    PutUser: _put_user,
    DeleteUser: _delete_user,
    PutPermission: _put_permission,
    DeletePermission: _delete_permission,
    PutTopicPermission: _put_topic_permission,
    DeleteTopicPermission: _delete_topic_permission,
    PutUserLimit: _put_user_limit,
    DeleteUserLimit: _delete_user_limit,
    PutVhostLimit: _put_vhost_limit,
    DeleteVhostLimit: _delete_vhost_limit,
    PutPolicy: _put_policy,
    DeletePolicy: _delete_policy,
    PutParameter: _put_parameter,
    DeleteParameter: _delete_parameter,
    PutGlobalParameter: _put_global_parameter,
    DeleteGlobalParameter: _delete_global_parameter,
}
