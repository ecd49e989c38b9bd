"""Changes of definitions: their effect in memory, and the events that they are.

The same functions serve a start, which puts every row of the definitions store, and a command, which has the store
make the change first. So a change can mean only one thing. Exchanges, queues and bindings are not among KINDS: their
changes begin in memory and lead to the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from broker.admin.kinds import limit_kind, parameter_kind, permission_kind, policy_kind, user_kind, vhost_kind
from broker.admin.kinds.change_event import ChangeEvent
from broker.admin.kinds.definition_kind import DefinitionKind
from broker.admin.kinds.limit_kind import LimitChanges
from broker.entities.exchanges.event_exchange import INTERNAL
from broker.entities.node.broker import Broker
from broker.entities.scheduling.future import Future
from storage.definitions.definition_rows import Change, DefinitionRow, Delete, Put

KINDS: dict[type[DefinitionRow], DefinitionKind] = {
    kind.row: kind
    for kind in (
        vhost_kind.VHOSTS,
        user_kind.USERS,
        permission_kind.PERMISSIONS,
        permission_kind.TOPIC_PERMISSIONS,
        limit_kind.VHOST_LIMIT_KIND,
        limit_kind.USER_LIMIT_KIND,
        policy_kind.POLICIES,
        parameter_kind.PARAMETERS,
        parameter_kind.GLOBAL_PARAMETERS,
    )
}
_APPLIED: Future[None] = Future.resolved(None)


def take_effect(broker: Broker, change: Change, by: str = INTERNAL) -> Future[None]:
    """Apply a change that is on disk to the broker in memory; changes that memory knows nothing of do nothing.

    A policy of many queues holds for all of them some turns later, when the future is settled. `by` is the user that
    makes the change: events of the queues and exchanges that go with a virtual host name it.
    """
    applied: Future[None] | None
    if isinstance(change, Put) and type(change.row) in KINDS:
        applied = KINDS[type(change.row)].put(broker, change.row)
    elif isinstance(change, Delete) and change.kind in KINDS:
        applied = KINDS[change.kind].delete(broker, by, **change.key)
    else:
        return _APPLIED
    broker.users.changed()
    return _APPLIED if applied is None else applied


def events_of(broker: Broker, changes: Iterable[Change]) -> Iterator[ChangeEvent]:
    """Yield the events of changes, before any of them takes effect. Limits changed together are one event."""
    for change in limit_kind.together(changes):
        yield from _events(broker, change)


def _events(broker: Broker, change: Change | LimitChanges) -> Iterator[ChangeEvent]:
    if isinstance(change, LimitChanges):
        yield from limit_kind.limit_events(broker, change)
    elif isinstance(change, Put) and type(change.row) in KINDS:
        yield from KINDS[type(change.row)].put_events(broker, change.row)
    elif isinstance(change, Delete) and change.kind in KINDS:
        yield from KINDS[change.kind].delete_events(broker, **change.key)
