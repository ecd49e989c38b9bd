"""Permissions of users in virtual hosts, and on topic exchanges."""

from __future__ import annotations

from collections.abc import Iterator

from broker.admin.kinds.change_event import ChangeEvent
from broker.admin.kinds.definition_entry import DefinitionEntry, Name
from broker.admin.kinds.definition_kind import DefinitionKind
from broker.admin.kinds.values import check_pattern
from broker.entities.node.broker import Broker
from broker.entities.node.users import Permission, TopicPermission
from storage.definitions.definition_rows import PermissionRow, Put, TopicPermissionRow


class PermissionEntry(DefinitionEntry, frozen=True):
    """A user's permissions in a virtual host: three regular expressions."""

    user: Name
    vhost: Name
    configure: str
    write: str
    read: str

    def check(self, broker: Broker) -> None:
        """Raise AdministrationError for an invalid regular expression."""
        for pattern in (self.configure, self.write, self.read):
            check_pattern(pattern)

    def changes(self, broker: Broker) -> Iterator[Put]:
        """Yield the permission."""
        yield Put(PermissionRow(self.user, self.vhost, self.configure, self.write, self.read))


class TopicPermissionEntry(DefinitionEntry, frozen=True):
    """The routing keys that a user may use with an exchange: two regular expressions."""

    user: Name
    vhost: Name
    exchange: str
    write: str
    read: str

    def check(self, broker: Broker) -> None:
        """Raise AdministrationError for an invalid regular expression."""
        for pattern in (self.write, self.read):
            check_pattern(pattern)

    def changes(self, broker: Broker) -> Iterator[Put]:
        """Yield the permission."""
        yield Put(TopicPermissionRow(self.user, self.vhost, self.exchange, self.write, self.read))


# Effect


def _put(broker: Broker, row: PermissionRow) -> None:
    broker.users.permissions[row.vhost, row.user] = Permission(row.configure, row.write, row.read)


def _delete(broker: Broker, by: str, *, user: str, vhost: str) -> None:
    broker.users.permissions.pop((vhost, user), None)


def _put_topic(broker: Broker, row: TopicPermissionRow) -> None:
    broker.users.topic_permissions[row.vhost, row.user, row.exchange] = TopicPermission(row.write, row.read)


def _delete_topic(broker: Broker, by: str, *, user: str, vhost: str, exchange: str | None) -> None:
    for key in _topics(broker, user, vhost, exchange):
        del broker.users.topic_permissions[key]


def _topics(broker: Broker, user: str, vhost: str, exchange: str | None) -> list[tuple[str, str, str]]:
    """Return the keys of a user's topic permissions in a virtual host: on one exchange, or (None) on all."""
    keys = broker.users.topic_permissions
    return [key for key in keys if key[:2] == (vhost, user) and exchange in (None, key[2])]


# Events


def _put_events(broker: Broker, row: PermissionRow) -> Iterator[ChangeEvent]:
    yield ChangeEvent("permission.created", row._asdict())


def _delete_events(broker: Broker, *, user: str, vhost: str) -> Iterator[ChangeEvent]:
    if (vhost, user) in broker.users.permissions:
        yield ChangeEvent("permission.deleted", {"user": user, "vhost": vhost})


def _put_topic_events(broker: Broker, row: TopicPermissionRow) -> Iterator[ChangeEvent]:
    yield ChangeEvent("topic.permission.created", row._asdict())


def _delete_topic_events(broker: Broker, *, user: str, vhost: str, exchange: str | None) -> Iterator[ChangeEvent]:
    named = {} if exchange is None else {"exchange": exchange}
    if _topics(broker, user, vhost, exchange):
        yield ChangeEvent("topic.permission.deleted", {"user": user, "vhost": vhost, **named})


PERMISSIONS = DefinitionKind(PermissionRow, _put, _delete, _put_events, _delete_events)
TOPIC_PERMISSIONS = DefinitionKind(
    TopicPermissionRow, _put_topic, _delete_topic, _put_topic_events, _delete_topic_events
)
